"""Throughput of records and repeats, with 95 % CIs, from window times."""

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

# Possible slowdown of windows from the first to the last of a point's budget, as a fraction: heat,
# memory and neighbors slow machines down over minutes. It is too small to detect in the few windows
# of a quiet process.
ASSUMED_DRIFT = 0.03
_HALVINGS = 40


def undetected_drift(trial: Trial, job: JobWindows) -> float:
    """Return how much slower the budget's mean window may be than the counted ones.

    A fraction, for windows that drift by `ASSUMED_DRIFT` linearly. 0 if all windows of the budget
    were measured, and if no precision ended the measurement.
    """
    windows, counted = trial.measuring.windows, len(job.counting)
    if not trial.measuring.precision or trial.asynchronous or windows < 2:
        return 0.0
    first = job.found.dropped - trial.measuring.warmup_windows
    middle = first + (counted - 1) / 2
    return max(0.0, ASSUMED_DRIFT * ((windows - 1) / 2 - middle) / (windows - 1))


@lru_cache(maxsize=4096)
def interval_reach(freedom: float, bound: float) -> float:
    """Return the CI's reach in standard errors beyond both ends of a bias 0..bound.

    For a bias of either 0 or `bound`, a Student's t with `freedom` degrees of freedom is within the
    interval 95 times in 100 (Imbens and Manski, Econometrica 72, 2004). `bound` is in standard
    errors. Without a bias the reach is the two-sided 95 % quantile; with a large bias, the
    one-sided one.
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
    """Return a throughput's CI ends as factors, from its logarithmic error and a bias."""
    further = interval_reach(freedom, slowdown / size) * size if size else 0.0
    return math.exp(-further - slowdown), math.exp(further)


# Run-to-run standard deviation of throughput, as a fraction, assumed if n = 1: quiet machines have
# 0.6 to 1.5 %.
ASSUMED_SCATTER = 0.015
# Machines differ, so the assumption counts as much as ten measured processes.
_ASSUMED = StandardError(size=ASSUMED_SCATTER, degrees_of_freedom=9)
# Measuring ends when windows look precise, so when their correlation happens to look small.
_CAUTION = 1.0
# Fact of a rank with imported throughput: half a unit of the last printed digit, as a fraction.
ROUNDING = "rounding"
# Fact of a rank: its one window is a whole job of many steps, not a sample of them.
WHOLE_JOB = "whole_job"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Throughput (images/s) from `windows` steady windows of `repeats` processes.

    error       standard error of its logarithm, so relative: from the variance between repeats;
                with one repeat, from its windows and `ASSUMED_SCATTER`; None with one window
    slowdown    possible loss of throughput over the whole budget, as a fraction, because measuring
                ended early; it widens the lower end of the CI, not the error, because compared
                points share it
    """

    images_per_second: float
    error: StandardError | None
    repeats: int
    windows: int
    slowdown: float = 0.0

    @property
    def assumed(self) -> bool:
        """Whether its error includes an assumed run-to-run variance (n = 1)."""
        return self.repeats == 1 and self.error is not None

    @property
    def low(self) -> float | None:
        """The lower end of the 95 % CI."""
        return self._end(0)

    @property
    def high(self) -> float | None:
        """The upper end of the 95 % CI."""
        return self._end(1)

    @property
    def ratio(self) -> "Ratio":
        """The throughput (images/s) with its CI."""
        return Ratio(value=self.images_per_second, low=self.low, high=self.high)

    @property
    def relative_half_width(self) -> float | None:
        """The CI half-width as a fraction of the throughput."""
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
    """The samples of one repeat's throughput: (seconds, images) of `windows` windows.

    rounding    possible error of imported throughput that was printed rounded, as a fraction
    slowdown    as in Rate
    whole       whether the samples cover a whole long job, so only run-to-run variance remains
    """

    each: tuple[tuple[float, float], ...]
    windows: int
    rounding: float = 0.0
    slowdown: float = 0.0
    whole: bool = False

    @property
    def pooled(self) -> float:
        """The throughput (images/s): all images over all seconds."""
        return sum(images for _, images in self.each) / sum(seconds for seconds, _ in self.each)


def rate_samples(record: RateRecord, job: JobWindows) -> RateSamples:
    """Return a good record's samples: steady windows, or slices if asynchronous."""
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
    """Return a record's throughput (images/s) over its steady windows."""
    return rate_samples(record, job_windows(record)).pooled


def rate(records: Sequence[Record]) -> Rate:
    """Return the throughput of one trial's good repeats."""
    return pool_repeats([rate_samples(record, job_windows(record)) for record in records])


def pool_repeats(repeats: Sequence[RateSamples]) -> Rate:
    """Pool repeats into one throughput.

    Each repeat has the same weight, whatever its number of windows: the function averages their
    mean seconds per image. For equal numbers of windows this equals all images over all seconds.
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
    """Add the rounding error, which a mean over lines does not reduce in a steady log.

    An error uniform in ±share has the variance share^2 / 3.
    """
    return replace(error, size=math.hypot(error.size, share / math.sqrt(3)))


def _between(rates: Sequence[float]) -> StandardError:
    """Return the standard error of the mean logarithm of independent repeats."""
    logs = [math.log(one) for one in rates]
    count = len(logs)
    mean = math.fsum(logs) / count
    squares = math.fsum((one - mean) ** 2 for one in logs)
    return StandardError(
        size=math.sqrt(squares / (count - 1) / count), degrees_of_freedom=count - 1
    )


def _of_one(parts: RateSamples) -> StandardError | None:
    """Combine one process's error with the assumed run-to-run variance.

    The larger half-width counts: with few windows, the sum can look more precise than the windows.
    """
    if parts.whole:
        return _ASSUMED
    within = _within(parts)
    return within and max(
        within, error_of_sum(within, _ASSUMED), key=lambda error: error.half_width
    )


def _within(parts: RateSamples) -> StandardError | None:
    """Return the error of a ratio of sums within a process (Cochran 1977, chapter 6)."""
    mean = math.fsum(seconds for seconds, _ in parts.each) / len(parts.each)
    pooled = parts.pooled
    residuals = [(seconds - images / pooled) / mean for seconds, images in parts.each]
    return error_of_mean(residuals, _CAUTION)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A ratio of two throughputs with its 95 % CI; ends are None if either has no CI."""

    value: float
    low: float | None
    high: float | None

    @property
    def is_uninformative(self) -> bool:
        """Whether a side of the CI is larger than the value."""
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        return max(self.value - low, high - self.value) > self.value

    def times(self, factor: float) -> "Ratio":
        """Return the ratio and its CI in another unit, such as percent."""
        ends = (None if end is None else end * factor for end in (self.low, self.high))
        return Ratio(value=self.value * factor, **dict(zip(("low", "high"), ends, strict=True)))
