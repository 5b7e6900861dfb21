"""Runs the trials of a sweep that are not done yet, one after another, into a store."""

import json
import shlex
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import environment
from bench.events import Event
from bench.sweep import Sweep
from bench.trial import Trial
from launch import job
from launch.errors import LaunchError
from launch.hosts import ROOT, Host
from launch.identity import identity
from launch.plan import Process, emulated, plan
from launch.ports import free_port
from launch.watch import Deadlines, Seen, Verdict
from results.record import Identity, Rank, Record, Started
from results.store import Store

# On an idle machine a worker on one core was seen to compute 98 to 100 % of its window time.
_BUSY_BELOW = 0.95


@dataclass(frozen=True, kw_only=True)
class Where:
    """The hosts a sweep runs on, the scheduler's port (None: a free one) and its patience."""

    hosts: tuple[Host, ...]
    port: int | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)


Point = tuple[Trial, Identity]


def points(what: Sweep, where: Where) -> list[Point]:
    """What the sweep asks for, repeat by repeat, after a check that all of it can be measured here.

    Raises SpecError or LaunchError where data, hosts, devices or the port are not right.
    """
    for trial in what.trials:
        _check_devices(trial, where)
        plan(trial, where.hosts, where.port or 0)
    free_port(where.hosts[0].address, where.port)
    return [
        (trial, identity(trial, repeat, where.hosts))
        for repeat in range(what.repeats)
        for trial in what.trials
    ]


def sweep(
    what: Sweep, wanted: Sequence[Point], where: Where, store: Store
) -> Generator[Started | Event | Record]:
    """Runs the points that are not in the store yet, which is made to describe this sweep.

    Yields the beginning, the events and the record of each point; a record is stored first.
    """
    store.write("asked.json", json.dumps([asdict(name) for _, name in wanted]) + "\n")
    done = store.done()
    left = [(trial, name) for trial, name in wanted if name not in done]
    if left:
        store.write("sweep.toml", what.text)
        store.write("environment.json", json.dumps(_environment(what), indent=1) + "\n")
    for number, (trial, name) in enumerate(left, len(wanted) - len(left) + 1):
        yield Started(trial=trial, identity=name, number=number, total=len(wanted))
        yield from _point(trial, name, where, store)


def _environment(what: Sweep) -> dict[str, Any]:
    return {
        "description": what.description,
        **environment.describe(ROOT),
    }


def _check_devices(trial: Trial, where: Where) -> None:
    if trial.device == "gpu" and not all(host.gpus for host in where.hosts):
        raise LaunchError(
            f"{trial.name} needs GPUs, and this machine has none; measure with device = 'cpu', or "
            f"see the processes it would start with 'fab bench.plan'"
        )


def _point(trial: Trial, name: Identity, where: Where, store: Store) -> Iterator[Event | Record]:
    processes = plan(trial, where.hosts, free_port(where.hosts[0].address, where.port))
    logs = store.folder / "logs" / trial.key / str(name.repeat)
    began, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    verdict, seen = yield from _run(processes, logs, where.deadlines)
    workers = [one for one in seen.values() if one.process.role == "worker"]
    verdict = _judged(trial, verdict, workers)
    record = Record(
        trial=trial,
        identity=name,
        status=verdict.status,
        message=verdict.message or _note(trial, workers),
        ranks=tuple(_rank(worker) for worker in workers if worker.rank is not None),
        emulated=emulated(trial, where.hosts),
        started=started,
        elapsed_seconds=time.monotonic() - began,
        accuracy=_accuracy(workers),
        commands=_commands(processes),
    )
    store.append(record)
    yield record


def _run(
    processes: Sequence[Process], logs: Path, deadlines: Deadlines
) -> Generator[Event, None, job.Result]:
    """Yields the events of a job and returns its result once every process is gone."""
    result: job.Result | None = None
    for update in job.run(processes, logs, deadlines):
        if isinstance(update, Event):
            yield update
        else:
            result = update
    assert result is not None
    return result


def _note(trial: Trial, workers: Sequence[Seen]) -> str:
    """What a reader of a good point should know."""
    used = workers[0].facts.get("decode_threads")
    if used is None or used == trial.data_nthreads:
        return _busy(trial, workers[0])
    return (
        f"decoded in {used} of {trial.data_nthreads} threads asked for, MXNet takes at most half "
        f"as many as there are processors"
    )


def _busy(trial: Trial, worker: Seen) -> str:
    """Says so where one core's worker, that waits for nobody, did not have its core to itself."""
    if trial.servers or trial.devices > 1 or trial.device == "gpu" or trial.engine == "fake":
        return ""
    if trial.mode != "synthetic":  # it may wait for images
        return ""
    windows = worker.windows[trial.warmup_windows :]
    share = sum(w["cpu_seconds"] for w in windows) / sum(w["seconds"] for w in windows)
    if share >= _BUSY_BELOW:
        return ""
    return (
        f"the machine was busy: the worker computed in {100 * share:.0f} % of its time only, and "
        f"the speed-ups over it look too good; measure again on an idle machine (another --run)"
    )


def _commands(processes: Sequence[Process]) -> dict[str, str]:
    return {process.id: shlex.join(process.argv) for process in processes}


def _rank(worker: Seen) -> Rank:
    assert worker.rank is not None
    windows = worker.windows
    return Rank(
        rank=worker.rank,
        host=worker.process.host.name,
        process=worker.process.id,
        seconds=tuple(window["seconds"] for window in windows),
        ends=tuple(window["end"] for window in windows),
        cpu_seconds=tuple(window.get("cpu_seconds", 0.0) for window in windows),
        images=tuple(window["images"] for window in windows),
        losses=tuple(window.get("loss", 0.0) for window in windows),
        facts=worker.facts | (worker.done or {}),
    )


def _overlap(trial: Trial, workers: Sequence[Seen]) -> float:
    """Seconds in which every worker was in windows after warm-up, by the hosts' clocks."""
    first = [worker.windows[trial.warmup_windows] for worker in workers]
    begin = max(window["end"] - window["seconds"] for window in first)
    return float(min(worker.windows[-1]["end"] for worker in workers) - begin)


def _accuracy(workers: Sequence[Seen]) -> float | None:
    """Of the last validation, over all ranks' shares; None where a rank has none."""
    last = [worker.epochs[-1] for worker in workers if worker.epochs]
    if not last or len(last) < len(workers):
        return None
    correct = sum(int(epoch["correct"]) for epoch in last)
    return correct / sum(int(epoch["total"]) for epoch in last)


def _judged(trial: Trial, verdict: Verdict, workers: Sequence[Seen]) -> Verdict:
    """The verdict, unless the job that ended well was not the one asked for."""
    doubt = next(_doubts(trial, workers), None) if verdict.status == "ok" else None
    return verdict if doubt is None else Verdict(status="failed", message=doubt)


def _doubts(trial: Trial, workers: Sequence[Seen]) -> Iterator[str]:
    """Why the windows of a job that ended well are no measurement of this trial."""
    for worker in workers:
        if worker.facts["num_workers"] != trial.workers:
            found = worker.facts["num_workers"]
            yield f"{worker.who} was in a job of {found} workers, expected {trial.workers}"
        if worker.facts["worker_batch"] != trial.worker_batch:
            found = worker.facts["worker_batch"]
            yield f"{worker.who} trained batches of {found}, expected {trial.worker_batch}"
    if {worker.rank for worker in workers} != set(range(trial.workers)):
        ranks = sorted(worker.rank or 0 for worker in workers)
        yield f"ranks 0 to {trial.workers - 1} should have reported; {ranks} did"
    counts = {len(worker.windows) for worker in workers}
    if len(counts) > 1 and not trial.asynchronous:
        yield f"ranks measured different numbers of windows: {sorted(counts)}"
    asked = trial.warmup_windows + max(1, trial.windows)
    if min(counts) < asked:
        yield f"{min(counts)} windows, expected {asked} with {trial.warmup_windows} of warm-up"
    elif trial.asynchronous and _overlap(trial, workers) <= 0:
        yield "the workers were never all in measured windows at once; ask for more windows"
    accuracy = _accuracy(workers)
    if accuracy is not None and trial.stop_accuracy < 1 and accuracy <= trial.stop_accuracy:
        yield (
            f"validation accuracy {accuracy:.3f} after {trial.num_epochs} epochs, expected above "
            f"{trial.stop_accuracy}"
        )
    hashes = {worker.rank: (worker.done or {}).get("weight_hash") for worker in workers}
    if len(set(hashes.values())) > 1 and not trial.asynchronous:
        yield f"ranks ended with different weights: {hashes}"
