"""Windows of a whole job: steady state, and the windows that count."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.notes import Note, NoteKind
from bench.statistics.confidence import Numbers
from bench.statistics.steady_state import SteadyState, drift, find_steady_state
from bench.statistics.stopping_rule import PRECISION
from bench.trial import Trial
from results.record import Rank, RateRecord, Record

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
    seconds = np.array([rank.seconds[:count] for rank in record.ranks])
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
