"""Progress and failure of a job, computed from its monitor."""

import math

from bench.notes import Note, NoteKind, texts
from launch.job.monitor import (
    JobMonitor,
    ProcessState,
    Verdict,
    cpu_share,
    device_shares,
    gpu_shares,
    idle,
)
from results.progress import JobProgress, WorkerProgress
from results.record import Cause, FailedProcess, Failure

_RECENT_WINDOWS = 5
# A worker without an event for this long, and for several of its own windows, is stalled.
_STALLED_SECONDS, _STALLED_WINDOWS = 10.0, 3


def job_progress(monitor: JobMonitor, now: float) -> JobProgress:
    """Return the progress of the job at `now`.

    The first idle device is noted in the monitor.
    """
    workers = monitor.workers
    monitor.idle = monitor.idle or _idle(monitor)
    return JobProgress(
        workers=tuple(_standing(worker, now) for worker in workers),
        seconds=now - monitor.began,
        met_seconds=monitor.met - monitor.began if monitor.met else None,
        quiet_seconds=now - max((worker.last_report for worker in workers), default=monitor.began),
        idle="; ".join(texts(monitor.idle)),
    )


def failure_of(monitor: JobMonitor, verdict: Verdict) -> Failure | None:
    """Return the cause of a failed job and its processes; None on a success."""
    if verdict.status == "ok":
        return None
    suspects = [monitor.states[name] for name in verdict.suspects]
    processes = tuple(
        FailedProcess(
            process=one.process.id,
            host=one.process.host.name,
            pid=one.pid,
            window=None if one.log.rank is None else len(one.log.windows) + (one.log.done is None),
            windows=monitor.windows,
            silent=not one.tail,
        )
        for one in suspects
    )
    return Failure(cause=verdict.cause or Cause.INVALID, processes=processes)


def _idle(monitor: JobMonitor) -> tuple[Note, ...]:
    shares: dict[str, float] = {}
    for one in monitor.workers if monitor.met else []:
        if one.log.done is None and not one.exit:
            shares |= device_shares(one.label, one.uses, len(one.process.cores))
    return tuple(Note(NoteKind.IDLE_DEVICE, {}, {"process": name}) for name in idle(shares))


def _standing(one: ProcessState, now: float) -> WorkerProgress:
    recent = one.log.windows[-_RECENT_WINDOWS:]
    seconds = sum(window["seconds"] for window in recent)
    uses = list(one.uses)
    gpus = gpu_shares(uses[-1:])
    return WorkerProgress(
        worker=one.process.index,
        host=one.process.host.name,
        rank=one.log.rank,
        state=_state(one, now),
        windows=len(one.log.windows),
        images_per_second=sum(window["images"] for window in recent) / seconds if seconds else None,
        cpu=cpu_share(uses[-2:], len(one.process.cores)),
        gpu=sum(gpus) / len(gpus) if gpus else None,
        last_message=one.tail[-1] if one.tail else "",
    )


def _state(one: ProcessState, now: float) -> str:
    if one.exit:
        return "ended"
    if one.stopped:
        return "suspended"
    if one.log.done is not None:
        return "done"
    if one.log.rank is None:
        return "waiting" if one.reached else "starting"
    if one.validating:
        return "validating"
    last = one.log.windows[-1]["seconds"] if one.log.windows else math.inf
    patience = max(_STALLED_SECONDS, _STALLED_WINDOWS * last)
    return "stalled" if now - one.last_report > patience else "training"
