"""Progress of a running job at one moment, for the screen; nothing stores it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class WorkerProgress:
    """Where one worker of a running job stands.

    state               starts, waits (for the others), trains, validates, quiet (for too long),
                        stopped, done or ended
    windows             those that have ended, warm-up included
    images_per_second   over the last few of them; None before the first
    cpu                 share of its cores that it uses now, of one where it is kept to none; None
                        where that is not known
    gpu                 share of the time that its GPUs are busy, or None
    last_word           the last line of its log
    """

    worker: int
    host: str
    rank: int | None
    state: str
    windows: int
    images_per_second: float | None
    cpu: float | None
    gpu: float | None
    last_word: str


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """All workers of a job, `seconds` after its start.

    met_seconds     when all had met, or None
    quiet_seconds   since any worker said anything
    idle            who does nothing while most others work, in words, or ''
    """

    workers: tuple[WorkerProgress, ...]
    seconds: float
    met_seconds: float | None
    quiet_seconds: float
    idle: str
