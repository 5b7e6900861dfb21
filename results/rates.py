"""Throughput of a record and of repeats, with intervals, from window times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from bench.statistics.confidence import (
    CONFIDENCE,
    StandardError,
    error_of_mean,
    error_of_sum,
    student,
)
from bench.trial import Trial
from results.record import RateRank, RateRecord, Record
from results.windows import JobWindows, common_slices, job_windows

# By how much windows may become slower from the first to the last of a point's budget, as a
# fraction: heat, memory and neighbors slow machines down over minutes. Too little to be seen in the
# few windows of a quiet process.
ASSUMED_DRIFT = 0.03
_HALVINGS = 40


def undetected_drift(trial: Trial, job: JobWindows) -> float:
    """By how much the mean window of the whole budget may be slower than those that count.

    As a fraction, for windows that drift by `ASSUMED_DRIFT` along a straight line. 0 if all windows
    of the budget were measured, and if there was no precision to end at.
    """
    windows, counted = trial.measuring.windows, len(job.counting)
    if not trial.measuring.precision or trial.asynchronous or windows < 2:
        return 0.0
    first = job.found.dropped - trial.measuring.warmup_windows
    middle = first + (counted - 1) / 2
    return max(0.0, ASSUMED_DRIFT * ((windows - 1) / 2 - middle) / (windows - 1))


@lru_cache(maxsize=4096)
def interval_reach(freedom: float, bound: float) -> float:
    """How many standard errors the interval reaches beyond both ends of a bias of 0 to `bound`.

    Whichever of these two the bias is, a Student's t of so many degrees of freedom is within the
    interval 95 times in 100 (Imbens and Manski, Econometrica 72, 2004). `bound` is in standard
    errors. Without a bias it is the usual quantile, of 95 % on both sides; with a large one that of
    95 % on one side.
    """
    if bound <= 0:
        return student(freedom)
    from scipy.special import stdtr  # noqa: PLC0415 - it takes longer to load than most tasks run

    low, high = 0.0, student(freedom)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        held = stdtr(freedom, middle + bound) - stdtr(freedom, -middle)
        low, high = (middle, high) if held < CONFIDENCE else (low, middle)
    return high


def interval_factors(size: float, freedom: float, slowdown: float) -> tuple[float, float]:
    """The interval of a throughput, as factors: its error on the logarithmic scale, and a bias."""
    further = interval_reach(freedom, slowdown / size) * size if size else 0.0
    return math.exp(-further - slowdown), math.exp(further)


# Standard deviation of throughput between processes, as a fraction, if only one was measured:
# quiet machines have 0.6 to 1.5 %.
ASSUMED_SCATTER = 0.015
# As uncertain as if ten processes had been measured: machines differ.
_ASSUMED = StandardError(size=ASSUMED_SCATTER, degrees_of_freedom=9)
# A process ends with windows that seem known well, so with those whose correlation seems small.
_CAUTION = 1.0
# Among a rank's facts, of imported speeds: half a unit of the last printed digit, as a fraction.
ROUNDING = "rounding"
# Among a rank's facts: its one window is a whole job of many steps, not a sample of them.
WHOLE_JOB = "whole_job"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Images per second, from `windows` steady windows of `repeats` processes.

    error       of its logarithm, so relative: from the spread between repeats if there are more
                than one, else from that of the windows and from `ASSUMED_SCATTER`; None if there
                is one window
    slowdown    by how much the throughput of the whole budget may be lower, as a fraction, because
                measuring ended early (`results.rates`); it is in the lower end of the interval,
                not in the error, because it is alike in points that are compared
    """

    images_per_second: float
    error: StandardError | None
    repeats: int
    windows: int
    slowdown: float = 0.0

    @property
    def assumed(self) -> bool:
        """Whether its error includes a variance between processes that nobody measured."""
        return self.repeats == 1 and self.error is not None

    @property
    def low(self) -> float | None:
        """The lower end of the 95 % interval."""
        return self._end(0)

    @property
    def high(self) -> float | None:
        """The upper end of the 95 % interval."""
        return self._end(1)

    @property
    def ratio(self) -> "Ratio":
        """The rate itself, in images per second, with its interval."""
        return Ratio(value=self.images_per_second, low=self.low, high=self.high)

    @property
    def relative_half_width(self) -> float | None:
        """Half of the interval, as a part of the rate."""
        low, high = self.low, self.high
        if low is None or high is None:
            return None
        return (high - low) / 2 / self.images_per_second

    def _end(self, which: int) -> float | None:
        if self.error is None:
            return None
        factors = interval_factors(self.error.size, self.error.degrees_of_freedom, self.slowdown)
        return self.images_per_second * factors[which]


@dataclass(frozen=True, kw_only=True)
class RateSamples:
    """What one repeat's rate is made from: (seconds, images) each, of `windows` windows.

    rounding    by how much the rate can be off because speeds were printed rounded, as a fraction
    slowdown    as in Rate
    whole       whether they are all of a long job, so that only processes scatter
    """

    each: tuple[tuple[float, float], ...]
    windows: int
    rounding: float = 0.0
    slowdown: float = 0.0
    whole: bool = False

    @property
    def pooled(self) -> float:
        """Images of all parts over the seconds of all, so images per second."""
        return sum(images for _, images in self.each) / sum(seconds for seconds, _ in self.each)


def rate_samples(record: RateRecord, job: JobWindows) -> RateSamples:
    """The parts of a good record: its steady windows, or slices where ranks have own clocks."""
    each: tuple[tuple[float, float], ...] = job.counting
    if record.trial.asynchronous and isinstance(record, Record):
        each = tuple(common_slices(record))
    rounding = max((_rounding(rank) for rank in record.ranks), default=0.0)
    return RateSamples(
        each=each,
        windows=len(job.counting),
        rounding=rounding,
        slowdown=undetected_drift(record.trial, job),
        whole=any(rank.facts.get(WHOLE_JOB) is True for rank in record.ranks),
    )


def _rounding(rank: RateRank) -> float:
    value = rank.facts.get(ROUNDING, 0.0)
    return float(value) if isinstance(value, int | float) and 0 <= value < 1 else 0.0


def rate_of(record: Record) -> float:
    """Images of all steady windows of all ranks over the seconds of those windows."""
    return rate_samples(record, job_windows(record)).pooled


def rate(records: Sequence[Record]) -> Rate:
    """The rate of one trial's good repeats."""
    return pool_repeats([rate_samples(record, job_windows(record)) for record in records])


def pool_repeats(repeats: Sequence[RateSamples]) -> Rate:
    """The rate of repeats.

    Each repeat counts alike, however many windows it took: their mean seconds an image are
    averaged. Where all have as many windows that is all images over all seconds.
    """
    rates = [one.pooled for one in repeats]
    error = _between(rates) if len(rates) > 1 else _of_one(repeats[0])
    return Rate(
        images_per_second=len(rates) / sum(1 / one for one in rates),
        error=error and _with_rounding(error, max(one.rounding for one in repeats)),
        repeats=len(repeats),
        windows=sum(one.windows for one in repeats),
        slowdown=math.fsum(one.slowdown for one in repeats) / len(repeats),
    )


def _with_rounding(error: StandardError, share: float) -> StandardError:
    """Rounding is off alike in all lines of a steady log: no mean of them is known better.

    A value that is off by up to `share` with any chance alike has this variance.
    """
    return replace(error, size=math.hypot(error.size, share / math.sqrt(3)))


def _between(rates: Sequence[float]) -> StandardError:
    """Repeats are independent: the error of the mean of their logarithms."""
    logs = [math.log(one) for one in rates]
    count = len(logs)
    mean = math.fsum(logs) / count
    squares = math.fsum((one - mean) ** 2 for one in logs)
    return StandardError(
        size=math.sqrt(squares / (count - 1) / count), degrees_of_freedom=count - 1
    )


def _of_one(parts: RateSamples) -> StandardError | None:
    """The windows of one process do not show how processes differ: that is assumed.

    Of few windows whose spread is hardly known, the sum would seem to be known better than they.
    """
    if parts.whole:
        return _ASSUMED
    within = _within(parts)
    return within and max(
        within, error_of_sum(within, _ASSUMED), key=lambda error: error.half_width
    )


def _within(parts: RateSamples) -> StandardError | None:
    """Of all images over all seconds: that of a ratio of sums (Cochran 1977, chapter 6)."""
    mean = math.fsum(seconds for seconds, _ in parts.each) / len(parts.each)
    pooled = parts.pooled
    residuals = [(seconds - images / pooled) / mean for seconds, images in parts.each]
    return error_of_mean(residuals, _CAUTION)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """One rate over another with its 95 % interval; low and high None where either has none."""

    value: float
    low: float | None
    high: float | None

    def times(self, factor: float) -> "Ratio":
        """The ratio and its interval in another unit, such as per cent."""
        ends = (None if end is None else end * factor for end in (self.low, self.high))
        return Ratio(value=self.value * factor, **dict(zip(("low", "high"), ends, strict=True)))
