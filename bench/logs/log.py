"""Content of another tool's log, before its point is known."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from bench.logs.arguments import Arguments
from bench.logs.lines import Line
from bench.notes import Note

# Bounds of throughput, seconds and other figures of a log.
_LEAST, _MOST = 1e-9, 1e15
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,9})?")
# Whose images a printed throughput counts.
SPEEDS_OF = {
    "workers": "each worker prints its own throughput",
    "one-worker": "one worker prints its own throughput; the others are assumed to be as fast",
    "one-device": "the throughput of one device is printed; the others are assumed to be as fast",
    "job": "the throughput is that of the whole job",
}


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """An interval of training with its throughput or duration, as printed in a log.

    worker  printing worker; "" if unknown
    place   end: (epoch, batch) or (step,), increasing
    steps   number of steps; 0 if unknown
    rate    images per second; 0.0 if the log prints seconds
    images  total; 0 if steps and the batch give it
    rounding  half a unit of the last digit of the rate or seconds, relative to the value
    at      end by the time on the line; None without one
    line    number of the line
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

    @property
    def possible(self) -> bool:
        """Whether the throughput or the duration can be one."""
        return _LEAST <= (self.seconds or self.rate) <= _MOST


@dataclass(kw_only=True)
class Log:
    """Content of a log; the format's reader fills it line by line.

    stated    settings of the point: network, devices, hosts, workers, devices_per_worker,
              batch_per_device, worker_batch, global_batch, kvstore, dtype, mode, device. Also:
              also_network (all names of the network), product (a batch of a device or of a
              worker), shares (processes that each print their own throughput), ratio (total
              over the printing worker's throughput), sixteen (number of a line that mentions a
              16-bit data type); of a finished job: elapsed_seconds, epochs, steps and
              steps_rounding (relative uncertainty of steps)
    lines     number of lines
    total     throughput of the whole job as printed, images/s; 0.0 if not printed
    spoilt    numbers of lines with an unusable throughput
    accuracy  result of the last validation
    epochs    (number, seconds) of each epoch with a printed time
    notes     notes for the record
    arguments  printed arguments of the scripts
    """

    stretches: list[Stretch] = field(default_factory=list)
    stated: dict[str, Any] = field(default_factory=dict)
    lines: int = 0
    total: float = 0.0
    spoilt: list[int] = field(default_factory=list)
    accuracy: float | None = None
    epochs: list[tuple[int, float]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    arguments: Arguments = field(default_factory=Arguments)

    def over(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield the lines; count them and collect their arguments."""
        for line in lines:
            self.lines += 1
            self.arguments.read(line)
            yield line

    def take(self, *stretches: Stretch) -> None:
        """Add intervals, or their lines to `spoilt` if the throughput is impossible."""
        for one in stretches:
            if one.possible:
                self.stretches.append(one)
            else:
                self.spoilt.append(one.line)

    def whole(self) -> "Log":
        """Add the settings of the arguments; raise SpecError if they are contradictory."""
        found = self.arguments.stated()
        names = (found.get("network"), found.get("also_network"), self.stated.get("network"))
        self.stated = {**found, **self.stated}
        if any(names):
            self.stated["also_network"] = tuple(dict.fromkeys(filter(None, names)))
        self.total = self.total if math.isfinite(self.total) else 0.0
        return self


@dataclass(frozen=True, kw_only=True)
class Format:
    """A log format.

    found     whether a line identifies this format
    of        whose images a throughput counts: a key of `SPEEDS_OF`
    warmup    default number of warm-up intervals per worker
    mode      default of real or synthetic
    kvstore   default kvstore
    single    whether each worker has one device
    rates     the intervals that a line prints; None if it has no throughput per interval
    begun     whether a line begins as one with a throughput, which may be unusable
    means     whether a printed throughput is the mean since the first step
    places    whether places count steps
    steps     usual number of steps between two lines
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
    rates: Callable[[Line], Iterable[Stretch]] | None = None
    begun: Callable[[str], object] = lambda _: False
    means: bool = False
    places: bool = True
    steps: int = 1


def printed_rate(
    line: Line, place: tuple[int, ...], rate: str, steps: int = 0, worker: str = ""
) -> Stretch:
    """Return the interval that ends at a place, with the rate printed on its line."""
    return Stretch(
        worker=worker or line.worker,
        place=place,
        steps=steps,
        rate=number(rate),
        rounding=rounding(rate),
        line=line.number,
    )


def number(text: str) -> float:
    """Parse a number in ASCII digits; NaN for other texts and impossible values."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if value == 0 or _LEAST <= abs(value) <= _MOST else math.nan


def rounding(text: str) -> float:
    """Return half a unit of the last digit, relative to the number: 1/120 of "6.0"."""
    value = number(text)
    if not math.isfinite(value) or value <= 0:
        return 0.0
    plain, _, exponent = text.lower().partition("e")
    decimals = len(plain.partition(".")[2])
    unit = 10.0 ** min(int(exponent or 0) - decimals, 300)
    return unit / 2 / value


def with_steps(stretches: Sequence[Stretch], warmup: int) -> list[Stretch]:
    """Return one worker's intervals; fill missing steps by the usual distance.

    Steps of lines that are missing from the log belong to no interval.
    """

    gaps = [
        b.place[-1] - a.place[-1]
        for a, b in pairwise(stretches[warmup:])
        if a.place[:-1] == b.place[:-1] and b.place > a.place
    ]
    counted = Counter(gaps)
    usual = max(counted, key=lambda gap: (counted[gap], -gap), default=1)
    return [one if one.steps else replace(one, steps=usual) for one in stretches]
