"""The windows of a record that count: (seconds, images) of the whole job, once it is steady."""

import itertools

from bench.series import PRECISION
from bench.steady import Steady, drift, steady
from results.record import Rank, Record

_MOST_SLICES = 30


def job_windows(record: Record) -> list[tuple[float, int]]:
    """(seconds, images) of each window of the whole job, warm-up included.

    A synchronous window lasts as long as its slowest rank, and every rank must have reported it.
    """
    count = min(len(rank.seconds) for rank in record.ranks)
    return [
        (
            max(rank.seconds[index] for rank in record.ranks),
            sum(rank.images[index] for rank in record.ranks),
        )
        for index in range(count)
    ]


def steady_state(record: Record) -> Steady:
    """Where the job's windows become steady, by their seconds an image."""
    per_image = [seconds / images for seconds, images in job_windows(record)]
    return steady(per_image, record.trial.warmup_windows)


def steady_windows(record: Record) -> list[tuple[float, int]]:
    """(seconds, images) of each window of the whole job that counts."""
    return job_windows(record)[steady_state(record).dropped :]


def common_slices(record: Record) -> list[tuple[float, float]]:
    """(seconds, images) of equal slices of the time in which all ranks were steady.

    For ranks that run on their own clocks: a window that lies partly in a slice counts by that
    part. There are as many slices as the slowest rank has windows in that time, 30 at most: more
    batches say little more of a mean (Schmeiser 1982).
    """
    begin, end = _common_time(record)
    windows = min(sum(begin < at <= end for at in rank.ends) for rank in record.ranks)
    count = min(max(1, windows), _MOST_SLICES)
    edges = [begin + (end - begin) * edge / count for edge in range(count + 1)]
    return [
        (to - since, sum(_images(rank, since, to) for rank in record.ranks))
        for since, to in itertools.pairwise(edges)
    ]


def _common_time(record: Record) -> tuple[float, float]:
    """From when the last rank is steady until the first ends, by the hosts' clocks."""
    warmup = record.trial.warmup_windows
    end = min(rank.ends[-1] for rank in record.ranks)
    for first in (_first_steady(record), [warmup] * len(record.ranks)):
        begin = max(
            rank.ends[index] - rank.seconds[index]
            for rank, index in zip(record.ranks, first, strict=True)
        )
        if begin < end:
            break
    return begin, end


def _first_steady(record: Record) -> list[int]:
    return [
        steady(
            [seconds / images for seconds, images in zip(rank.seconds, rank.images, strict=True)],
            record.trial.warmup_windows,
        ).dropped
        for rank in record.ranks
    ]


def _images(rank: Rank, since: float, until: float) -> float:
    return sum(
        images * max(0.0, min(at, until) - max(at - seconds, since)) / seconds
        for seconds, at, images in zip(rank.seconds, rank.ends, rank.images, strict=True)
    )


def unsteadiness(record: Record) -> str:
    """What a reader must know of windows that did not become steady; empty where they did."""
    found, windows = steady_state(record), job_windows(record)
    if not found.settled:
        return (
            f"not steady: the first {found.dropped} of {len(windows)} windows differ from the rest "
            f"and do not count; measure more windows"
        )
    change = drift([seconds / images for seconds, images in windows[found.dropped :]])
    if abs(change) <= (record.trial.precision or PRECISION):
        return ""
    way = "slower" if change > 0 else "faster"
    return (
        f"not steady: from the first window that counts to the last they become "
        f"{100 * abs(change):.0f} % {way}"
    )
