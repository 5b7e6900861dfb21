"""What a person sees while work goes on: bars on a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bench.events import Event
from plots.table import significant
from results.rates import rate_of
from results.record import Record, Started

_LINE_SECONDS = 10.0


class Bars:
    """Named bars that advance; without a terminal, a line now and then of those that take long."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[note]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, float] = {}
        self._begun: set[str] = set()

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, name: str, done: int, total: int, note: str = "") -> None:
        """Moves the bar `name` to done of total."""
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(escape(name), total=total, note="")
        self._progress.update(self._tasks[name], completed=done, total=total, note=escape(note))
        if not self._console.is_terminal:
            self._plain(name, done, total, note)

    def _plain(self, name: str, done: int, total: int, note: str) -> None:
        now = time.monotonic()
        since = now - self._said.setdefault(name, now)
        # What takes less than ten seconds from its first step to its last says no line.
        if done > 0 and since < _LINE_SECONDS and not (done == total and name in self._begun):
            return
        self._said[name] = now
        self._begun.add(name)
        print(f"{name}: {done}/{total} {note}".rstrip(), file=sys.stderr, flush=True)

    def line(self, text: str) -> None:
        """Says a line that stays."""
        if self._console.is_terminal:
            self._progress.console.print(escape(text))
        else:
            print(text, file=sys.stderr, flush=True)

    def remove(self, name: str) -> None:
        """Takes a bar away."""
        self._said.pop(name, None)
        self._begun.discard(name)
        if name in self._tasks:
            self._progress.remove_task(self._tasks.pop(name))


class SweepScreen:
    """Follows a sweep: a bar over its points and one over the windows of the point that runs."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._started: Started | None = None
        self._windows = 0
        self._epochs: dict[int, list[tuple[int, int]]] = {}

    def show(self, update: Started | Event | Record) -> None:
        """Takes what the sweep yields."""
        if isinstance(update, Started):
            self._begin(update)
        elif isinstance(update, Event):
            self._move(update)
        else:
            self._end(update)

    def _begin(self, started: Started) -> None:
        self._started, self._windows, self._epochs = started, 0, {}
        self._bars.show("runs", started.number - 1, started.total, started.trial.name)

    def _move(self, event: Event) -> None:
        assert self._started is not None
        trial = self._started.trial
        if event.kind == "epoch":
            self._epoch(event)
        if event.kind != "window" or event.rank != 0 or not trial.windows:
            return
        self._windows += 1
        warm = " (warm-up)" if self._windows <= trial.warmup_windows else ""
        note = f"{event.values['seconds']:.2f} s a window{warm}"
        self._bars.show(trial.name, self._windows, trial.warmup_windows + trial.windows, note)

    def _epoch(self, event: Event) -> None:
        """Says the accuracy over all ranks' shares, once the last has told its own."""
        assert self._started is not None
        trial, epoch = self._started.trial, event.values["epoch"]
        shares = self._epochs.setdefault(epoch, [])
        shares.append((event.values["correct"], event.values["total"]))
        if len(shares) < trial.workers:
            return
        accuracy = sum(correct for correct, _ in shares) / sum(total for _, total in shares)
        self._bars.line(f"{trial.name}: epoch {epoch}, validation accuracy {accuracy:.3f}")
        if not trial.windows:
            note = f"accuracy {accuracy:.3f}, until each worker's share is above "
            note += f"{trial.stop_accuracy:g}"
            self._bars.show(f"{trial.name} epochs", epoch + 1, trial.num_epochs, note)

    def _end(self, record: Record) -> None:
        assert self._started is not None
        started, name = self._started, record.trial.name
        self._bars.remove(name)
        self._bars.remove(f"{name} epochs")
        self._bars.show("runs", started.number, started.total)
        if record.status != "ok":
            self._bars.line(f"{name}: {record.status}: {record.message}")
            return
        reached = "" if record.accuracy is None else f", validation accuracy {record.accuracy:.3f}"
        self._bars.line(f"{name}: {significant(rate_of(record))} images/s{reached}")
