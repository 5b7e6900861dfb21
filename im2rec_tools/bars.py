"""Progress display: bars on a terminal, plain lines elsewhere."""

import math
import sys
import time

from rich.markup import escape
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from im2rec_tools.console import Screen, line
from im2rec_tools.progress import Progress
from im2rec_tools.terminal import echo

_LINE_SECONDS = 10.0


class Bars:
    """Named progress bars; without a terminal, a line per bar every 10 s."""

    def __init__(self) -> None:
        self._console = Screen(err=True)
        self._progress = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]} {task.fields[note]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._printed: dict[str, float] = {}
        self._begun: set[str] = set()
        self._paces: dict[str, RemainingTime] = {}

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, name: str, done: int, total: int, note: str = "") -> None:
        """Set the bar `name` to done of total; a total of 0 is unknown."""
        count = f"{done}/{total}" if total else str(done)
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(escape(name), total=1, count="", note="")
        self._progress.update(
            self._tasks[name],
            completed=done,
            total=total or None,
            count=count,
            note=escape(note),
        )
        if not self._console.is_terminal:
            self._plain(name, f"{name}: {count} {note}".rstrip(), done, total)

    def follow(self, progress: Progress) -> None:
        """Update the bar of a step: throughput, time left, bad images."""
        pace = self._paces.setdefault(progress.step, RemainingTime(progress.done))
        self.show(progress.step, progress.done, progress.total, pace.note(progress))

    def _plain(self, name: str, line: str, done: int, total: int) -> None:
        now = time.monotonic()
        is_new = name not in self._printed
        since = now - self._printed.setdefault(name, now)
        last = done == total and name in self._begun
        # A step that ends within 10 s of its first update prints no further line.
        begins = is_new and done == 0 and total > 0
        if not (begins or last or since >= _LINE_SECONDS):
            return
        if last:
            self._begun.discard(name)
            self._printed[name] = math.inf
        else:
            self._begun.add(name)
            self._printed[name] = now
        echo(line, err=True)

    def say(self, text: str) -> None:
        """Print a line of the result to standard output."""
        if self._console.is_terminal and sys.stdout.isatty():
            self._progress.console.print(line(text), soft_wrap=True, highlight=False)
        else:
            echo(text)


class RemainingTime:
    """Throughput of a step since it began, and the estimated time left."""

    def __init__(self, first: int) -> None:
        self._first, self._began = first, time.monotonic()

    def note(self, progress: Progress) -> str:
        """Return throughput, time left and bad images: '812 images/s, 1:23 left, 2 bad'.

        Of other units: 'MB, 95 MB/s, 1:23 left'.
        """
        seconds = time.monotonic() - self._began
        notes = []
        if progress.done > self._first and seconds > 0:
            notes.append(f"{(progress.done - self._first) / seconds:.0f} {progress.unit}/s")
            left = self._left(progress, seconds)
            if left is not None:
                notes.append(f"{clock(left)} left")
        if progress.unit == "images":
            notes.append(f"{progress.bad} bad")
        else:
            notes.insert(0, progress.unit)
        return ", ".join(notes)

    def _left(self, progress: Progress, seconds: float) -> float | None:
        if progress.fraction is not None:
            return seconds / progress.fraction - seconds if progress.fraction > 0 else None
        if not progress.total:
            return None
        return seconds / (progress.done - self._first) * (progress.total - progress.done)


def clock(seconds: float) -> str:
    """Format seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
