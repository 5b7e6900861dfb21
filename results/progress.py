"""Progress of a running job and the time left, for the live display."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.events import Event
from results.record import Record, RepeatStart


@dataclass(frozen=True, kw_only=True)
class WorkerProgress:
    """The progress of one worker of a running job.

    state               starting, waiting (for the others), training, validating, stalled, suspended
                        (by SIGSTOP), done or ended
    windows             finished windows, warm-up included
    images_per_second   over the most recent windows; None before the first
    cpu                 share of its cores in use, of one core if it is bound to none; None if not
                        available
    gpu                 share of the time that its GPUs are busy, or None
    last_message        the last line of its log
    """

    worker: int
    host: str
    rank: int | None
    state: str
    windows: int
    images_per_second: float | None
    cpu: float | None
    gpu: float | None
    last_message: str


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """All workers of a job, `seconds` after its start.

    met_seconds     when the rendezvous was done, or None
    quiet_seconds   since the last event of any worker
    idle            the note on idle devices while the others work, or ''
    """

    workers: tuple[WorkerProgress, ...]
    seconds: float
    met_seconds: float | None
    quiet_seconds: float
    idle: str


SweepUpdate = RepeatStart | Event | JobProgress | Record


def sweep_seconds_left(
    left: Sequence[str],
    finished: Iterable[tuple[str, float]],
    expected: Mapping[str, float] | None = None,
) -> float | None:
    """Estimate the seconds that the remaining repeats take; None if unknown.

    `left` has the key of each remaining repeat's point, `finished` key and elapsed seconds of each
    finished one, `expected` the seconds of a repeat by key, from earlier runs. A repeat takes as
    long as the mean of its point, else as expected, else the mean of all.
    """
    elapsed: dict[str, list[float]] = {}
    for key, seconds in finished:
        elapsed.setdefault(key, []).append(seconds)
    means = dict(expected or {}) | {key: fmean(one) for key, one in elapsed.items()}
    if not means:
        return None
    every = [seconds for one in elapsed.values() for seconds in one]
    overall = fmean(every or means.values())
    return sum(means.get(key, overall) for key in left)
