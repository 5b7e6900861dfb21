"""The progress of a job at one moment."""

import math

from bench.notes import Note, NoteKind, texts
from launch.job.monitor import JobMonitor, ProcessState, cpu_share, device_shares, gpu_shares, idle
from results.progress import JobProgress, WorkerProgress

_RECENT_WINDOWS = 5
# A worker that is silent for so long, and for several windows of its own, makes no progress.
_QUIET_SECONDS, _QUIET_WINDOWS = 10.0, 3


def job_progress(monitor: JobMonitor, now: float) -> JobProgress:
    """The job's workers at `now`; once some worker idles while others work, the monitor knows."""
    workers = monitor.workers
    monitor.idle = monitor.idle or _idle(monitor)
    return JobProgress(
        workers=tuple(_standing(worker, now) for worker in workers),
        seconds=now - monitor.began,
        met_seconds=monitor.met - monitor.began if monitor.met else None,
        quiet_seconds=now - max((worker.last_report for worker in workers), default=monitor.began),
        idle="; ".join(texts(monitor.idle)),
    )


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
        last_word=one.tail[-1] if one.tail else "",
    )


def _state(one: ProcessState, now: float) -> str:
    if one.exit:
        return "ended"
    if one.stopped:
        return "stopped"
    if one.log.done is not None:
        return "done"
    if one.log.rank is None:
        return "waits" if one.reached else "starts"
    if one.validating:
        return "validates"
    last = one.log.windows[-1]["seconds"] if one.log.windows else math.inf
    patience = max(_QUIET_SECONDS, _QUIET_WINDOWS * last)
    return "quiet" if now - one.last_report > patience else "trains"
