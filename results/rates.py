"""Windows of a job, and throughputs with 95 % CIs from their times."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from bench.notes import Note, NoteKind
from bench.statistics.confidence import (
    CONFIDENCE,
    Numbers,
    StandardError,
    error_of_mean,
    error_of_sum,
    student,
)
from bench.statistics.steady_state import SteadyState, drift, find_steady_state
from bench.statistics.stopping_rule import PRECISION
from bench.trial import Trial
from results.record import Rank, RateRank, RateRecord, Record, joined

_MOST_SLICES = 30
# Least windows of the slowest rank in a time span that represents the job.
_LEAST_WINDOWS = 3


@dataclass(frozen=True, kw_only=True)
class JobWindows:
    """(seconds, images) of each window of a whole job, and their steady state.

    seconds   of each rank's windows (ranks x windows), in the record's order of ranks, up to the
              window count of the rank with fewest
    """

    each: tuple[tuple[float, int], ...]
    found: SteadyState
    seconds: Numbers

    @property
    def counting(self) -> tuple[tuple[float, int], ...]:
        """The windows that count."""
        return self.each[self.found.dropped :]


def job_windows(record: RateRecord) -> JobWindows:
    """Return the windows of the whole job, warm-up included.

    A synchronous window lasts as long as its slowest rank; windows that a rank did not report are
    left out.
    """
    count = min(len(rank.seconds) for rank in record.ranks)
    seconds = joined(rank.seconds[:count] for rank in record.ranks)
    seconds = seconds.reshape(len(record.ranks), count)
    kinds = Counter(rank.images[:count] for rank in record.ranks)  # usually one kind
    alike = ([ranks * n for n in images] for images, ranks in kinds.items())
    each = tuple(zip(seconds.max(axis=0).tolist(), map(sum, zip(*alike, strict=True)), strict=True))
    per_image = [one / trained for one, trained in each]
    found = find_steady_state(per_image, record.trial.measuring.warmup_windows)
    return JobWindows(each=each, found=found, seconds=seconds)


def common_slices(record: Record) -> list[tuple[float, float]]:
    """Return (seconds, images) of equal slices of time in which all ranks are steady.

    For asynchronous ranks. Time in which any rank is between windows (validation, checkpoint) does
    not count for any rank. A window partly in a slice counts by that part. There are as many slices
    as the slowest rank has windows in that time, at most 30: more batches add little information
    about a mean (Schmeiser 1982).
    """
    begins, ends = _together(record)
    windows = min(sum(begins[0] < at <= ends[-1] for at in rank.ends) for rank in record.ranks)
    # Cumulative images of all ranks at both ends of each stretch; linear between window ends.
    trained = _images_by(record)
    before = np.concatenate(([0.0], np.cumsum(ends - begins)))
    knots = np.linspace(0.0, before[-1], min(max(1, windows), _MOST_SLICES) + 1)
    stretch = np.clip(np.searchsorted(before, knots, side="right") - 1, 0, len(begins) - 1)
    whole = np.concatenate(([0.0], np.cumsum(trained(ends) - trained(begins))))
    inside = trained(begins[stretch] + knots - before[stretch]) - trained(begins[stretch])
    images = np.diff(whole[stretch] + inside)
    return [(float(s), float(n)) for s, n in zip(np.diff(knots), images, strict=True)]


def _together(record: Record) -> tuple[Numbers, Numbers]:
    """Return begins and ends of stretches in which every rank is inside a window.

    Times are of the hosts' clocks, from when the last rank is steady until the first rank ends.
    """
    warmup = record.trial.measuring.warmup_windows
    end = min(rank.ends[-1] for rank in record.ranks)
    longest = max(float(np.median(rank.seconds)) for rank in record.ranks)
    for first in (_first_steady(record, end), [warmup] * len(record.ranks)):
        spans = [_spans(rank, index) for rank, index in zip(record.ranks, first, strict=True)]
        begin = max(float(starts[0]) for starts, _ in spans)
        edges = np.unique(np.concatenate([*(edge for span in spans for edge in span), [begin]]))
        edges = edges[(edges >= begin) & (edges <= end)]
        middles = (edges[1:] + edges[:-1]) / 2
        inside = np.ones(len(middles), dtype=bool)
        for starts, ends in spans:
            which = np.searchsorted(starts, middles) - 1
            inside &= (which >= 0) & (middles < ends[which])
        stretches = edges[:-1][inside], edges[1:][inside]
        if float(np.sum(stretches[1] - stretches[0])) >= _LEAST_WINDOWS * longest:
            return stretches
    if inside.any():
        return stretches
    if begin >= end:
        raise ValueError("the ranks were never in measured windows at once")
    return np.array([begin]), np.array([end])  # at any time, some rank was between windows


def _spans(rank: Rank, first: int) -> tuple[Numbers, Numbers]:
    """Return begins and ends of a rank's windows from `first` on, without overlap.

    Ends and durations come from two clocks, so raw windows can overlap.
    """
    ends = np.array(rank.ends[first:])
    starts = ends - rank.seconds[first:]
    return np.maximum(starts, np.concatenate((starts[:1], ends[:-1]))), ends


def _images_by(record: Record) -> Callable[[Numbers], Numbers]:
    """Return a function of time: the images that all ranks have trained by then."""
    ranks = []
    for rank in record.ranks:
        starts, ends = _spans(rank, 0)
        done = np.cumsum(rank.images)
        times = np.column_stack((starts, ends)).ravel()
        ranks.append((times, np.column_stack((done - rank.images, done)).ravel()))
    return lambda at: np.sum([np.interp(at, *one) for one in ranks], axis=0)


def _first_steady(record: Record, end: float) -> list[int]:
    """Return each rank's first counted window, using windows in which all ranks train."""
    warmup = record.trial.measuring.warmup_windows
    found = []
    for rank in record.ranks:
        count = sum(at <= end for at in rank.ends)
        parts = zip(rank.seconds[:count], rank.images[:count], strict=True)
        one = find_steady_state([seconds / images for seconds, images in parts], warmup)
        found.append(max(warmup, one.dropped) if one.converged else warmup)
    return found


def dropped_notes(trial: Trial, job: JobWindows) -> Iterator[Note]:
    """Yield a note on windows excluded besides the warm-up, and their effect.

    Yields nothing if `steady_state_notes` reports them.
    """
    extra = job.found.dropped - trial.measuring.warmup_windows
    if extra < 1 or trial.asynchronous or not (job.found.converged or _drifts(trial, job)):
        return
    front, rest = job.each[trial.measuring.warmup_windows : job.found.dropped], job.counting
    whole = extra + len(rest)
    kind = NoteKind.WINDOWS_DROPPED if 3 * extra <= whole else NoteKind.MANY_WINDOWS_DROPPED
    change = _per_image(front) / _per_image(rest) - 1
    yield Note(kind, {"dropped": extra, "of": whole, "change": change})


def _per_image(windows: Sequence[tuple[float, int]]) -> float:
    return sum(seconds for seconds, _ in windows) / sum(images for _, images in windows)


def _drifts(trial: Trial, job: JobWindows) -> float:
    """Return the drift of the counted windows as a fraction; 0 if below the precision."""
    change = drift([seconds / images for seconds, images in job.counting])
    return change if abs(change) > (trial.measuring.precision or PRECISION) else 0.0


def steady_state_notes(trial: Trial, job: JobWindows) -> Iterator[Note]:
    """Yield a note on windows without a steady state.

    Skips asynchronous jobs, whose ranks share no window numbers. A drift has no level to confirm,
    wherever the warm-up ends.
    """
    if trial.asynchronous:
        return
    if change := _drifts(trial, job):
        yield Note(NoteKind.DRIFT, {"change": change})
    elif not job.found.converged:
        warmup = trial.measuring.warmup_windows
        figures = {"dropped": job.found.dropped - warmup, "of": len(job.each) - warmup}
        yield Note(NoteKind.NOT_STEADY, figures)


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

    @cached_property
    def low(self) -> float | None:
        """The lower end of the 95 % CI."""
        return self._end(0)

    @cached_property
    def high(self) -> float | None:
        """The upper end of the 95 % CI."""
        return self._end(1)

    @cached_property
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
