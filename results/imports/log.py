"""The content of another tool's log, before its point is known."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from bench.notes import Note
from results.imports.arguments import Arguments
from results.imports.lines import Line

# Of speeds, seconds and whatever else a log has a figure of.
_LEAST, _MOST = 1e-9, 1e15
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,9})?")
# Whose images a speed counts, in words.
SPEEDS_OF = {
    "workers": "each worker prints the speed of its own images",
    "one-worker": "one worker prints the speed of its images, the others are assumed to be as fast",
    "one-device": "the speed of one device is printed, the others are assumed to be as fast",
    "job": "a speed is of the whole job",
}


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A stretch of training that a log tells the speed of, by its rate or by its seconds.

    worker  who says so; "" where the log does not tell
    place   where it ends: (epoch, batch) or (step,), counted up
    steps   how many; 0 where it does not tell
    rate    images per second; 0.0 where seconds say it
    images  in all; 0 where steps and the batch say it
    rounding  half a unit of the last digit of its rate or seconds, as a part of it
    at      when it ended by the time on its line; None where there is none
    line    number of the line that says so
    """

    worker: str = ""
    place: tuple[int, ...]
    steps: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    images: int = 0
    rounding: float = 0.0
    at: float | None = None
    line: int = 0


@dataclass(kw_only=True)
class Log:
    """What a log says; its readers fill it line by line.

    said      of its point: network, devices, hosts, workers, devices_per_worker, batch_per_device,
              worker_batch, global_batch, kvstore, dtype, mode, device. Besides: also_network
              (all names of it), product (a batch that is a device's or a worker's), shares
              (processes that each print their own speed), ratio (its total by the speed of the
              worker that prints it), sixteen (a line that mentions a 16-bit number format); of a
              job that ended: elapsed_seconds, epochs, steps and steps_rounding (by what part the
              steps may be off)
    lines     how many it has
    total     images per second of the whole job, by the log's own account; 0.0 if it has none
    spoilt    numbers of lines that should have a speed and have none that can be used
    accuracy  of its last validation
    epochs    (number, seconds) of each that it says the time of
    notes     what a reader must know
    arguments  that its scripts print
    """

    stretches: list[Stretch] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)
    lines: int = 0
    total: float = 0.0
    spoilt: list[int] = field(default_factory=list)
    accuracy: float | None = None
    epochs: list[tuple[int, float]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    arguments: Arguments = field(default_factory=Arguments)

    def over(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines, counted; what they say of arguments is taken from them."""
        for line in lines:
            self.lines += 1
            self.arguments.read(line)
            yield line

    def take(self, stretch: Stretch) -> None:
        """A stretch, if its speed is one that a job can have; else its line is spoilt."""
        value = stretch.seconds or stretch.rate
        if _LEAST <= value <= _MOST:
            self.stretches.append(stretch)
        else:
            self.spoilt.append(stretch.line)

    def whole(self) -> "Log":
        """The log with what its arguments say; SpecError if it contradicts itself."""
        found = self.arguments.said()
        names = (found.get("network"), found.get("also_network"), self.said.get("network"))
        self.said = {**found, **self.said}
        if any(names):
            self.said["also_network"] = tuple(dict.fromkeys(filter(None, names)))
        self.total = self.total if math.isfinite(self.total) else 0.0
        return self


@dataclass(frozen=True, kw_only=True)
class Format:
    """A kind of log.

    found     whether a line is one that only such a log has
    of        whose images a speed counts: see `SPEEDS_OF`
    warmup    stretches at the front of each worker that do not count, unless told otherwise
    mode      real or synthetic, unless it or the person says
    kvstore   unless it or the person says
    single    whether each worker has one device
    """

    name: str
    title: str
    found: Callable[[str], object]
    read: Callable[[Iterable[Line]], Log]
    of: str
    warmup: int
    mode: str
    kvstore: str = "unknown"
    single: bool = False


def printed_rate(
    line: Line, place: tuple[int, ...], rate: str, steps: int = 0, worker: str = ""
) -> Stretch:
    """The stretch up to a place, by the rate that its line prints."""
    return Stretch(
        worker=worker or line.worker,
        place=place,
        steps=steps,
        rate=number(rate),
        rounding=rounding(rate),
        line=line.number,
    )


def number(text: str) -> float:
    """The number in ASCII digits that the text is; NaN for any other, and for one of no log."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if value == 0 or _LEAST <= abs(value) <= _MOST else math.nan


def rounding(text: str) -> float:
    """Half a unit of the last digit of a printed number, as a part of it: 1/120 of "6.0"."""
    value = number(text)
    if not math.isfinite(value) or value <= 0:
        return 0.0
    plain, _, exponent = text.lower().partition("e")
    decimals = len(plain.partition(".")[2])
    unit = 10.0 ** min(int(exponent or 0) - decimals, 300)
    return unit / 2 / value


def with_steps(stretches: Sequence[Stretch], warmup: int) -> list[Stretch]:
    """The stretches of one worker, those without steps with as many as lie between most of them.

    Steps of lines that were cut out of the log belong to none: a speed is of the usual stretch.
    """
    gaps = [
        b.place[-1] - a.place[-1]
        for a, b in pairwise(stretches[warmup:])
        if a.place[:-1] == b.place[:-1] and b.place > a.place
    ]
    counted = Counter(gaps)
    usual = max(counted, key=lambda gap: (counted[gap], -gap), default=1)
    return [one if one.steps else replace(one, steps=usual) for one in stretches]
