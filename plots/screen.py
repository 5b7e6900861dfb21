"""The screen of a sweep: workers in a table above a bar of its points."""

import time
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.events import Event
from im2rec_tools.console import Screen, line
from im2rec_tools.terminal import echo
from plots.format import significant
from plots.tables.scaling import rate_unit
from plots.workers import rendezvous_text, worker_table
from results.progress import JobProgress
from results.rates import rate_of
from results.record import Record, RepeatStart

_REFRESH_SECONDS = 0.25
# The title, the header, the line on other workers, the sweep's bar, and where the cursor is.
_OTHER_LINES = 5


class SweepScreen:
    """Follows a sweep: its workers in a table above a bar of its points.

    Without a terminal it says a line at each change of state.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Screen(err=True)
        self._bar = Progress(
            TextColumn("runs {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._started: RepeatStart | None = None
        self._glimpse: JobProgress | None = None
        self._told: set[str] = set()
        self._epochs: dict[int, list[tuple[int, int]]] = {}
        self._refreshed = 0.0
        self._live: Live | None = None
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(self, console=self._console, auto_refresh=False)

    def __enter__(self) -> "SweepScreen":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, update: RepeatStart | Event | JobProgress | Record) -> None:
        """Takes what the sweep yields."""
        if isinstance(update, RepeatStart):
            self._begin(update)
        elif isinstance(update, JobProgress):
            self._look(update)
        elif isinstance(update, Record):
            self._end(update)
        elif update.kind == "epoch":
            self._epoch(update)
        now = time.monotonic()
        if self._live is None or isinstance(update, Event):
            return
        if now - self._refreshed >= _REFRESH_SECONDS:
            self._refreshed = now
            self._live.refresh()

    def __rich__(self) -> RenderableType:
        """What stands below the lines that were said, as things are now."""
        if self._started is None:
            return ""
        if self._glimpse is None:
            return self._bar
        rows = self._console.height - _OTHER_LINES
        return Group(worker_table(self._started.trial, self._glimpse, rows), self._bar)

    def _begin(self, started: RepeatStart) -> None:
        self._started, self._glimpse, self._told, self._epochs = started, None, set(), {}
        trial = started.trial
        if not self._bar.tasks:
            self._bar.add_task("")
        self._move(started.number - 1, trial.name)
        workers = f"{trial.workers} worker{'s' * (trial.workers > 1)}"
        hosts = f"{trial.hosts} host{'s' * (trial.hosts > 1)}"
        self._tell(f"started, {workers} on {hosts} ({started.number} of {started.total})")

    def _move(self, done: int, name: str) -> None:
        assert self._started is not None
        task = self._bar.task_ids[0]
        self._bar.update(task, completed=done, total=self._started.total, description=name)

    def _look(self, glimpse: JobProgress) -> None:
        assert self._started is not None
        self._glimpse = glimpse
        if glimpse.idle and "idle" not in self._told:
            self._told.add("idle")
            self._line(glimpse.idle)
        if glimpse.met_seconds is not None and "met" not in self._told:
            self._told.add("met")
            self._tell(rendezvous_text(self._started.trial, glimpse.met_seconds))
        if "window" not in self._told and all(one.windows for one in glimpse.workers):
            self._told.add("window")
            self._tell(f"first window after {glimpse.seconds:.0f} s")

    def _tell(self, text: str) -> None:
        """Says what the table shows where there is one."""
        if self._live is None:
            self._line(text)

    def _line(self, text: str) -> None:
        """Says a line of the point that runs, which stays."""
        assert self._started is not None
        text = f"{self._started.trial.name}: {text}"
        if self._live is None:
            echo(text, err=True)
        else:
            self._console.print(line(text))

    def _epoch(self, event: Event) -> None:
        """Says the accuracy over all ranks' shares, once the last has told its own."""
        assert self._started is not None
        trial, epoch = self._started.trial, event.values["epoch"]
        shares = self._epochs.setdefault(epoch, [])
        shares.append((event.values["correct"], event.values["total"]))
        if len(shares) == trial.workers:
            accuracy = sum(correct for correct, _ in shares) / sum(total for _, total in shares)
            self._line(f"epoch {epoch}, validation accuracy {accuracy:.3f}")

    def _end(self, record: Record) -> None:
        assert self._started is not None
        self._glimpse = None
        self._move(self._started.number, "")
        if record.status != "ok":
            self._line(f"{record.status}: {record.message}")
            return
        reached = "" if record.accuracy is None else f", validation accuracy {record.accuracy:.3f}"
        name, scale = rate_unit(record.trial)
        self._line(f"{significant(rate_of(record) / scale)} {name}{reached}")


def show_sweep(updates: Iterable[RepeatStart | Event | JobProgress | Record]) -> None:
    """Run a sweep by taking its updates, and show each."""
    with SweepScreen() as screen:
        for update in updates:
            screen.show(update)
