"""Windows of a job by the throughput that its program prints, line by line."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from bench.errors import SpecError, brief, error_line
from bench.logs.lines import Line, line
from bench.logs.log import Format, Stretch
from bench.notes import Note, NoteKind

# Lines that may state settings of the job, and the longest part of one that is read.
_MOST_STATING, _LONGEST = 2000, 1 << 14
# A comma between digits is a decimal one unless exactly three digits follow, as in 1,234.
_COMMA = re.compile(r"(?<=\d),(?=\d)(?!\d{3}(?!\d))", re.ASCII)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))", re.ASCII)
_SHOWN = 120
# As for logs: the clocks of short windows differ by less.
_APART, _ENOUGH_GAPS = 1.2, 3


@dataclass(frozen=True, kw_only=True)
class PrintedJob:
    """What the windows of a job are computed from.

    printers      processes that each print their own throughput
    devices       of the whole job
    batch         images per step and device
    global_batch  images per step of the whole job
    steps         of a window
    """

    printers: int
    devices: int
    batch: int
    global_batch: int
    steps: int


class Window(NamedTuple):
    """A window of the whole job.

    span  seconds by the printed throughput of all steps since the last window; more than `seconds`
          if a program prints the throughput of some steps only
    """

    seconds: float
    steps: int
    images: int
    span: float


@dataclass
class _Printer:
    """State of one process: its last place, and windows that others have yet to end."""

    place: tuple[int, ...] = ()
    rate: float = 0.0
    spent: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    span: float = 0.0
    windows: "deque[tuple[int, float, float]]" = field(default_factory=deque)


class WindowReader:
    """Reader of a program's output; `take` returns the windows that a line ends.

    lines     number of lines so far
    windows   number of windows so far
    spoilt    numbers of lines with an unusable throughput
    rounding  largest rounding error of a printed throughput, as a fraction of it
    """

    def __init__(self, form: Format, job: PrintedJob) -> None:
        self._form, self._job = form, job
        self.lines = self.windows = 0
        self.spoilt: list[int] = []
        self.rounding = 0.0
        self._printers: dict[str, _Printer] = {}
        self._places: dict[tuple[int, ...], int] = {}
        self._stating: list[Line] = []
        self._arrived: list[tuple[float, float]] = []

    def take(self, text: str, now: float) -> list[Window]:
        """Take a line that arrived at `now`; SpecError if it contradicts the settings."""
        self.lines += 1
        read = line(self.lines, text[:_LONGEST])
        found = self._stretches(read)
        if not found and len(self._stating) < _MOST_STATING:
            self._stating.append(read)
        for one in found:
            self._add(one)
        made = list(self._ended())
        if made:
            self._arrived.append((now, made[-1].span))
        return made

    def _stretches(self, read: Line) -> list[Stretch]:
        """Return the usable intervals on a line; SpecError for an ambiguous comma."""
        rates = self._form.rates
        assert rates is not None
        found = list(rates(read))
        begun = bool(self._form.begun(read.text))
        if begun and not found:
            text = _COMMA.sub(".", read.text)
            found, other = (
                list(rates(replace(read, text=_THOUSANDS.sub(mark, text)))) for mark in (".", "")
            )
            if found != other:
                raise SpecError(
                    error_line(
                        f"line {read.number} of the output",
                        expected="a throughput with a decimal point",
                        got=repr(brief(read.text.strip()[:_SHOWN])),
                        fix="Set env = ['LC_ALL=C'], or print no separators of thousands",
                    )
                )
        usable = [one for one in found if one.possible]
        if len(usable) < max(len(found), begun):
            self.spoilt.append(read.number)
        return usable

    def _add(self, one: Stretch) -> None:
        printer = self._printer(one)
        before, step = printer.place, one.place[-1]
        if one.place == before and one.rate == printer.rate:  # a line for each metric
            return
        if before and one.place <= before:
            raise SpecError(
                error_line(
                    f"line {one.line} of the output",
                    problem=f"step {step} is printed again",
                    fix="If several processes print, set printers to their number; if the "
                    "program trains twice, let it train once",
                )
            )
        printer.place, printer.rate = one.place, one.rate
        self.rounding = max(self.rounding, one.rounding)
        share = self._job.devices if self._form.of == "one-device" else self._job.printers
        batch = self._job.global_batch / share
        if self._form.means:  # since the first step
            spent = step * batch / one.rate
            steps, seconds = step - (before[-1] if before else 0), spent - printer.spent
            if seconds <= 0:  # lost to rounding: joined with the next one
                printer.place = before
                self.spoilt.append(one.line)
                return
            printer.spent, passed = spent, steps
        else:
            passed = self._passed(one, before)
            steps = one.steps or passed
            seconds = steps * (one.seconds or batch / one.rate)
        if not steps:
            return
        printer.steps += steps
        printer.seconds += seconds
        printer.span += seconds * passed / steps
        if printer.steps >= self._job.steps:
            printer.windows.append((printer.steps, printer.seconds, printer.span))
            printer.steps, printer.seconds, printer.span = 0, 0.0, 0.0

    def _passed(self, one: Stretch, before: tuple[int, ...]) -> int:
        """Return the steps since the last line, by the places; else as stated."""
        if not self._form.places:
            return one.steps or self._job.steps
        if before and before[:-1] == one.place[:-1]:
            return one.place[-1] - before[-1]
        return one.steps or (one.place[-1] if len(one.place) == 1 else self._job.steps)

    def _printer(self, one: Stretch) -> _Printer:
        """Return the process that printed an interval.

        Lines without a name belong to the first process that has not printed this place.
        """
        name = one.worker
        if not name and self._job.printers > 1:
            name = str(self._places.get(one.place, 0))
            self._places[one.place] = int(name) + 1
            if len(self._places) > _MOST_STATING:
                del self._places[next(iter(self._places))]
        found = self._printers.setdefault(name, _Printer())
        if len(self._printers) > self._job.printers:
            raise SpecError(
                error_line(
                    "printers",
                    expected="the number of processes that print a throughput",
                    got=self._job.printers,
                    problem=f"line {one.line} of the output is of a further one",
                    fix=f"Set printers = {len(self._printers)} or more",
                )
            )
        return found

    def _ended(self) -> Iterator[Window]:
        """Yield the windows that all processes have ended; each lasts as the slowest does."""
        everyone = list(self._printers.values())
        while len(everyone) == self._job.printers and all(one.windows for one in everyone):
            parts = [one.windows.popleft() for one in everyone]
            counts = sorted({steps for steps, _, _ in parts})
            if len(counts) > 1 or (counts[0] != self._job.steps and not self.spoilt):
                raise SpecError(
                    error_line(
                        "steps_per_window",
                        expected=f"{' and '.join(map(str, counts))}, as the program prints "
                        f"(line {self.lines} of the output)",
                        got=self._job.steps,
                        fix="Set it to the steps between two lines, or to a multiple",
                    )
                )
            self.windows += 1
            _, seconds, span = max(parts, key=lambda one: one[1])
            yield Window(seconds, counts[0], counts[0] * self._job.global_batch, span)

    def contradictions(self) -> list[str]:
        """Return how the settings that the program prints differ from those of the job."""
        try:
            log = self._form.read(self._stating)
        except SpecError:  # an incomplete log
            return []
        job = self._job
        asked = {"devices": job.devices, "batch_per_device": job.batch}
        if job.printers == 1:
            asked["global_batch"] = job.global_batch
        return [
            error_line(
                f"{name} that the program prints",
                expected=f"{value}, as in the sweep",
                got=log.stated[name],
                fix="Use the placeholders in command",
            )
            for name, value in asked.items()
            if log.stated.get(name) not in {None, 0, value}
        ]

    def notes(self) -> list[Note]:
        """Return the notes on the output: lines left out, and its throughput by the clock."""
        found = []
        if self.spoilt:
            figures = {"count": len(self.spoilt), "first": f"line {self.spoilt[0]}"}
            found.append(Note(NoteKind.LOG_SPOILT, figures))
        gaps = [(b - a) / span for (a, _), (b, span) in pairwise(self._arrived)]
        # Few gaps decide only if no line is missing between them.
        checked = len(gaps) >= (_ENOUGH_GAPS if self.spoilt else 1)
        if checked and not 1 / _APART < median(gaps) < _APART:
            found.append(Note(NoteKind.PRINTED_CONTRADICTED, {"factor": median(gaps)}))
        return found
