"""Figures of a report, drawn in a process of their own."""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from bench.errors import error_line
from plots.failures import Failures
from plots.figures.caption import caption, provenance
from plots.figures.model import input_rows, is_drawn
from results.errors import StoreError, store_errors
from results.prediction.calibration import NO_PREDICTIONS, Predictions
from results.run import Run
from results.run_folder import REPORT

# Time that an interrupted process has to remove its half-written file.
_END_SECONDS = 5.0
_ENDING = {signal.SIGINT, signal.SIGTERM}


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """The files of the figures, and a line for each figure that failed."""

    paths: tuple[Path, ...] = ()
    failures: tuple[str, ...] = ()


def draw_figures(
    run: Run, over: Run | None = None, predictions: Predictions = NO_PREDICTIONS
) -> Pictures:
    """Draw the figures of a report; StoreError if its folder is unwritable."""
    folder, failures = run.folder / REPORT, Failures()
    with store_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    simulated = "SIMULATED, not measured - " if run.rehearsal else ""
    title = f"{simulated}{run.name}: {run.environment.get('description') or 'scaling'}"

    def scaling_files() -> list[Path]:
        if not is_drawn(run.rows):
            return []
        from plots.figures import scaling  # noqa: PLC0415 - only this process needs Matplotlib

        figure = scaling.draw(run.rows, title, caption(run), over, predictions)
        with store_errors(folder, "written"):
            return scaling.save(figure, folder)

    def threads_files() -> list[Path]:
        readings = input_rows(run.rows)
        if not readings:
            return []
        from plots.figures import scaling, threads  # noqa: PLC0415 - as above

        figure = threads.draw(readings, title, provenance(run))
        with store_errors(folder, "written"):
            return scaling.save(figure, folder, "threads")

    paths = (
        *failures.attempt("figure scaling", scaling_files, list[Path]()),
        *failures.attempt("figure threads", threads_files, list[Path]()),
    )
    return Pictures(paths=paths, failures=tuple(failures.lines))


@contextmanager
def drawing(
    run: Run, over: Run | None = None, predictions: Predictions = NO_PREDICTIONS
) -> Iterator[Callable[[], Pictures]]:
    """Draw the figures in another process; yield a function that waits for them.

    It is a copy of this process, so start it before any thread. Loading Matplotlib and drawing take
    half of the time of a report. The function raises StoreError as `draw_figures` does.
    """
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    # Handlers of the program must not run in the copy outside of _draw: they raise exceptions.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        process = context.Process(target=_draw, args=(sender, run, over, predictions, before))
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    sender.close()

    def wait() -> Pictures:
        try:
            found: Pictures | StoreError = receiver.recv()
        except EOFError:
            problem = "the process that drew its figures was killed, probably for lack of memory"
            fix = "Free memory, then run the same command again"
            raise StoreError(error_line(run.folder / REPORT, problem=problem, fix=fix)) from None
        if isinstance(found, StoreError):
            raise found
        return found

    try:
        yield wait
    finally:
        receiver.close()
        process.terminate()
        process.join(_END_SECONDS)
        process.kill()
        process.join()


def _draw(
    sender: Connection,
    run: Run,
    over: Run | None,
    predictions: Predictions,
    mask: Iterable[int],
) -> None:
    """Draw and send the figures; `mask` is the signal mask while it does."""
    with suppress(KeyboardInterrupt, BrokenPipeError):
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            sender.send(draw_figures(run, over, predictions))
        except StoreError as error:
            sender.send(error)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
