"""Execution of a sweep: run the remaining repeats one after another into a store."""

import hashlib
import json
import logging
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bench.data.partition import data_hash, lines
from bench.data.shard_checks import (
    Given,
    check_class_count,
    check_image_shape,
    check_validation,
)
from bench.data.shards import count_images, shards
from bench.engines.catalog import ENGINES
from bench.engines.command.program import reported_by
from bench.engines.worker_options import worker_options
from bench.environment import describe
from bench.errors import SpecError
from bench.events import Event
from bench.settings import secrets
from bench.settings.point_names import point_names
from bench.sweep import Sweep
from bench.training.options import parse
from bench.trial import Trial
from launch.hosts import ROOT, Host
from launch.install import own_code
from launch.job.agents import Agents
from launch.job.controller_log import PRINTED, clean, controller_log
from launch.job.interference import machine_values
from launch.job.logs import BUDGET_BYTES, compress, compress_again
from launch.job.monitor import Deadlines, JobMonitor, Verdict
from launch.job.plan import check_host_count, command_line, emulated, plan, root_host
from launch.job.progress import failure_of
from launch.job.run import run_job
from launch.job.validity import accuracy, judge, validations
from launch.preflight.check import tcp_bandwidth
from launch.remote.agent import free_port
from launch.remote.errors import LaunchError, StoppedError, error_line
from launch.transport.line import Starter, start_local
from results.host_facts import HOST_FACTS, RAW_TCP, Place, omitted
from results.progress import JobProgress, SweepUpdate, sweep_seconds_left
from results.record import TRANSIENT_CAUSES, Cause, Identity, Record, RepeatStart
from results.run_folder import ASKED, ENVIRONMENT, LOGS, RECORDED, SWEEP, job_logs
from results.store import Store, set_environment
from results.worker_log import rank_of

PlannedRun = tuple[Trial, Identity]
_LOG = logging.getLogger(__name__)


def run_order(points: Sequence[PlannedRun], seed: str) -> list[PlannedRun]:
    """Return the points in randomized order within each repeat.

    The order follows from the seed alone: the remaining points of a sweep keep theirs.
    """

    def place(point: PlannedRun) -> tuple[int, str]:
        name = point[1]
        text = f"{seed} {name.repeat} {name.key}"
        return name.repeat, hashlib.sha256(text.encode()).hexdigest()

    return sorted(points, key=place)


def data_manifest(trial: Trial) -> str:
    """Return the manifest of the trial's local data.

    SpecError if a shard is missing or damaged.
    """
    named = [data for data in (trial.data.train, trial.data.val) if data]
    return data_hash(line for data in named for line in lines(data))


def check_local_data(trials: Iterable[Trial]) -> list[str]:
    """Check fields of trials against their shards on this machine; return notes.

    Shards that are not here are skipped. Raises SpecError for other classes, or for images that
    are too small.
    """
    notes: dict[str, None] = {}
    checked = set[Any]()
    counts: dict[str, int] = {}
    for trial in trials:
        size = (trial.workers, trial.worker_batch)
        facts = (trial.data, trial.model, trial.mode, trial.mxnet.options, size)
        if not trial.scripted and trial.data.train and facts not in checked:
            checked.add(facts)
            notes |= dict.fromkeys(_data_notes(trial, counts))
    return list(notes)


def _data_notes(trial: Trial, counts: dict[str, int]) -> list[str]:
    """Check one trial; `counts` keeps the number of images of each data set."""
    data = trial.data.train
    try:
        paths = shards(data)
    except SpecError:
        return []  # reported by `data_manifest`
    options = parse(worker_options(trial))
    check_image_shape(options, Given.FIELDS)
    if trial.mode != "real":
        return []
    if data not in counts:
        counts[data] = count_images(paths)
    _check_batch(trial, counts[data])
    notes = check_class_count(trial.data.train, trial.model.num_classes, Given.FIELDS)
    return [*notes, *filter(None, [check_validation(options, Given.FIELDS)])]


def _check_batch(trial: Trial, images: int) -> None:
    """Raise SpecError if a worker's share of the images is smaller than its batch."""
    share = images // trial.workers
    if share < trial.worker_batch:
        most = share * trial.device_batch // trial.worker_batch
        raise SpecError(
            error_line(
                "batch_per_device",
                expected=f"at most {most}; a worker has {share} of the "
                f"{images} images in {trial.data.train}",
                got=trial.device_batch,
                fix="Use a smaller batch, or more images",
            )
        )


def identity(trial: Trial, repeat: int, hosts: Sequence[Host], data: str) -> Identity:
    """Return the identity that a record of this repeat must have.

    `data` is its manifest.
    """
    return Identity(
        name=trial.name,
        key=trial.key,
        repeat=repeat,
        code_hash=own_code(),
        data_manifest=data,
        hosts=tuple(host.name for host in hosts[: trial.hosts]),
    )


# Another program may take the chosen port before the scheduler listens on it.
_RETRIES = 3
_TRANSIENT = omitted(HOST_FACTS, Place.STORE)


@dataclass(frozen=True, kw_only=True)
class ClusterSetup:
    """Hosts of a sweep, the scheduler's port (None: any free one), time limits.

    start       starter of mxscale's programs on a host
    scheduler   host of the scheduler, if not the first
    facts       facts of each host from its check
    data        manifest of each trial's data on the hosts, by its key; None: data is local
    log_budget  bytes of log kept per process
    retries     further tries of a repeat after a failure from outside the trial
    expected    seconds of a run by the key of its point, as earlier runs took
    """

    hosts: tuple[Host, ...]
    port: int | None = None
    deadlines: Deadlines = field(default_factory=Deadlines)
    start: Starter = start_local
    scheduler: Host | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    data: dict[str, str] | None = None
    log_budget: int = BUDGET_BYTES
    retries: int = 0
    expected: dict[str, float] = field(default_factory=dict)


def points(what: Sweep, where: ClusterSetup) -> list[PlannedRun]:
    """Return the repeats of a sweep, after a check that these hosts can run them.

    Raises SpecError or LaunchError if data, hosts, devices or the port do not fit.
    """
    return identified([(trial, n) for n in range(what.repeats) for trial in what.trials], where)


def identified(runs: Sequence[tuple[Trial, int]], where: ClusterSetup) -> list[PlannedRun]:
    """Return these repeats, each with the identity of its record.

    Checked as by `points`.
    """
    trials = {trial.key: trial for trial, _ in runs}
    for trial in trials.values():
        secrets.check(trial.layout.env)
        check_devices(trial, where)
        check_host_count(trial, where.hosts)
    if where.hosts[0].login is None:
        free_port(where.hosts[0].address, where.port)
    here = where.data is None
    if here:
        check_local_data(trials.values())
    data = {key: data_manifest(one) for key, one in trials.items()} if here else where.data or {}
    return [(one, identity(one, n, where.hosts, data.get(one.key, ""))) for one, n in runs]


def sweep(
    what: Sweep,
    wanted: Sequence[PlannedRun],
    where: ClusterSetup,
    store: Store,
    order: Sequence[PlannedRun] | None = None,
) -> Generator[SweepUpdate]:
    """Run the repeats that the store does not have yet.

    The store then describes this sweep.

    `order` is the execution order, or the repeats that run; reports keep the order of `wanted`.
    Yields the start, the events, one progress per second and the record
    of each repeat; a record is stored first.
    """
    asked = [
        asdict(name) | ({} if name.repeat else {"trial": trial.fields}) for trial, name in wanted
    ]
    compress_again(store.folder / LOGS)
    store.write(ASKED, json.dumps(asked) + "\n")
    done = store.elapsed_seconds()
    order = wanted if order is None else order
    before = sum(name in done for _, name in order)
    left = [(trial, name) for trial, name in order if name not in done]
    trials = list({trial.key: trial for trial, _ in wanted}.values())
    names = {one.key: text for one, text in zip(trials, point_names(trials), strict=True)}
    if left:
        store.write(SWEEP, what.text)
        ordered = [f"{name.name}, repeat {name.repeat + 1}" for _, name in order]
        environment = _environment(what, where) | {"order": ordered}
        data = {names[name.key]: name.data_manifest for _, name in wanted if name.data_manifest}
        environment |= {"data": data} if data else {}
        environment |= _link_speed(wanted, where)
        environment |= {"command": list(what.command)} if what.command else {}
        store.write(ENVIRONMENT, json.dumps(environment, indent=1) + "\n")
    elif what.command:
        set_environment(store.folder, command=list(what.command))
    if not left:
        return
    with controller_log(store.folder), closing(Agents(where.start)) as agents:
        _log_start(what, where, len(left), len(order))
        if left:
            agents.begin_job(host for host in where.hosts if host.login is not None)
            if where.port:
                agents.free_port(root_host(left[0][0], where.hosts, where.scheduler), where.port)
        finished = [(name.key, done[name]) for _, name in wanted if name in done]
        already, keys = len(finished), [name.key for _, name in left]
        for index, (trial, name) in enumerate(left):
            start = RepeatStart(
                trial=trial,
                identity=name,
                number=before + index + 1,
                total=len(order),
                name=names[name.key],
                seconds_left=sweep_seconds_left(keys[index:], finished, where.expected),
            )
            record = yield from _tries(start, where, store, agents)
            if record.status == "ok":
                finished.append((name.key, record.elapsed_seconds))
        _LOG.info("all %d repeats ran; %d have a result", len(left), len(finished) - already)


def _log_start(what: Sweep, where: ClusterSetup, left: int, total: int) -> None:
    hosts = ", ".join(host.name for host in where.hosts)
    _LOG.info("sweep %s: %d of %d repeats to run on %s", what.name, left, total, hosts)
    if what.command:
        _LOG.info("command: %s", secrets.command_line(what.command))


def _tries(
    start: RepeatStart, where: ClusterSetup, store: Store, agents: Agents
) -> Generator[SweepUpdate, None, Record]:
    """Run a repeat, with retries of transient failures; return its last record."""
    scripted = any(one.first_try for one in start.trial.faults)
    earlier = store.tries()[start.identity] if scripted else 0
    for attempt in range(1, where.retries + 2):
        name = f"{start.name or start.trial.name}, repeat {start.identity.repeat + 1}"
        _LOG.info("%s: try %d of at most %d", name, attempt, where.retries + 1)
        yield replace(start, attempt=attempt)
        record = yield from _point(start, earlier + attempt, where, store, agents)
        cause = record.failure.cause if record.failure else None
        _LOG.log(
            logging.INFO if record.status == "ok" else logging.WARNING,
            "%s: %s after %.1f s%s%s",
            name,
            record.status,
            record.elapsed_seconds,
            f", cause {cause}" if cause else "",
            clean(f": {record.message}") if record.message else "",
            extra=PRINTED,
        )
        if cause not in TRANSIENT_CAUSES:
            break
    return record


def _environment(what: Sweep, where: ClusterSetup) -> dict[str, Any]:
    packages = sorted({ENGINES[name].package for one in what.trials for name in one.engines} - {""})
    master = {"description": what.description, **describe(ROOT, packages)}
    hidden = {name for trial in what.trials for name in secrets.names(trial.layout.env)}
    # Processes on hosts inherit the hosts' variables.
    variables = {} if where.hosts[0].login else master.pop("variables")
    master["variables"] = secrets.masked(variables, hidden)
    hosts = {
        name: {fact: value for fact, value in found.items() if fact not in _TRANSIENT}
        for name, found in where.facts.items()
    }
    for facts in hosts.values():
        if "variables" in facts:
            facts["variables"] = secrets.masked(facts["variables"], hidden)
    return master | ({"hosts": hosts} if hosts else {})


def _link_speed(wanted: Sequence[PlannedRun], where: ClusterSetup) -> dict[str, float]:
    """Return the speed of TCP between the hosts, if one of the jobs uses their link.

    Empty if it cannot be measured: the jobs will say why.
    """
    if not any(trial.hosts > 1 and not trial.scripted for trial, _ in wanted):
        return {}
    try:
        return {RAW_TCP: round(tcp_bandwidth(where.hosts, where.start), 2)}
    except LaunchError:
        return {}


def check_devices(trial: Trial, where: ClusterSetup) -> None:
    """Raise LaunchError if the hosts have no GPUs for the trial, or too few."""
    if trial.layout.device == "gpu" and not all(host.gpus for host in where.hosts):
        without = [host.name for host in where.hosts if not host.gpus]
        raise LaunchError(
            error_line(
                trial.name,
                expected="a GPU on every host",
                got=f"none on {without[0]}",
                fix="Check the driver there with 'nvidia-smi', or set device = 'cpu'",
            )
        )
    most = min(trial.layout.devices, trial.layout.devices_per_host)
    for host in where.hosts[: trial.worker_hosts] if trial.layout.device == "gpu" else ():
        each = min(trial.layout.devices_per_worker, most)
        if each > host.gpus or (most > host.gpus and not trial.layout.emulate):
            raise LaunchError(
                error_line(
                    trial.name,
                    expected=f"{most} GPUs on {host.name}, {each} per worker",
                    got=host.gpus,
                    fix="Reduce devices_per_host, or set emulate = true to let workers share GPUs "
                    "(the report marks the point as oversubscribed)",
                )
            )


def _point(
    start: RepeatStart, attempt: int, where: ClusterSetup, store: Store, agents: Agents
) -> Generator[Event | JobProgress | Record, None, Record]:
    """Run try number `attempt` of a repeat, and store its record."""
    trial, name = start.trial, start.identity
    logs = job_logs(store.folder, trial.key, name.repeat)
    began, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="milliseconds")
    # The simulated engine's times vary with the repeat, some of its faults with the try.
    scripted = {"MXSCALE_REPEAT": str(name.repeat)}
    scripted |= {"MXSCALE_TRY": str(attempt)} if attempt > 1 and trial.scripted else {}
    job = _job(trial, scripted, where, agents, JobLogs(logs, started))
    monitor, verdict = yield from job
    if verdict.status == "ok":
        verdict = judge(trial, monitor.workers, monitor.idle, monitor.machines)
    record = Record(
        trial=trial,
        identity=name,
        status=verdict.status,
        message=secrets.masked_text(verdict.message),
        notes=(*verdict.notes, *monitor.refusals),
        ranks=tuple(
            rank_of(worker.log, worker.process.host.name, worker.process.id)
            for worker in monitor.workers
            if worker.log.rank is not None
        ),
        emulated=emulated(trial, where.hosts),
        started=started,
        elapsed_seconds=time.monotonic() - began,
        accuracy=accuracy(monitor.workers),
        commands={process.id: command_line(process) for process in monitor.processes},
        machines=machine_values(monitor.machines),
        failure=failure_of(monitor, verdict),
        validations=validations(monitor.workers),
        source=reported_by(trial) if trial.reported else "",
    )
    store.append(record)
    compress(logs)
    yield record
    if verdict.stopped:
        raise StoppedError("ended by 'fab hosts.stop'; finished points are kept")
    return record


class JobLogs(NamedTuple):
    """Folder of a job's logs, and the start time of the record that they belong to."""

    folder: Path
    started: str


def _job(
    trial: Trial, variables: dict[str, str], where: ClusterSetup, agents: Agents, logs: JobLogs
) -> Generator[Event | JobProgress, None, tuple[JobMonitor, Verdict]]:
    """Run a trial's job to its end; retry on another port if the chosen one was taken."""
    windows = trial.total_windows
    role = trial.root.partition("-")[0]
    root = root_host(trial, where.hosts, where.scheduler)
    for _ in range(1 if where.port else 1 + _RETRIES):
        port, why_not = _port(agents, root, where.port)
        planned = plan(trial, where.hosts, port, where.scheduler)
        processes = [replace(process, env=process.env | variables) for process in planned]
        monitor = JobMonitor(processes, where.deadlines, time.monotonic(), windows)
        _LOG.info("%s on %s (%s), port %d", role, root.name, root.address, port)
        if why_not:
            return monitor, Verdict(status="lost", message=why_not, cause=Cause.LOST)
        verdict = yield from run_job(monitor, agents, logs.folder, where.log_budget, logs.started)
        if not (monitor.root_failed() and _port(agents, root, port)[1]):
            return monitor, verdict
        _LOG.info("another program took port %d: starting the job on another one", port)
        (logs.folder / RECORDED).unlink(missing_ok=True)  # this was no try of the repeat
    taken = f"another program took port {port} on {root.address} before the {role} did"
    message = f"{taken}: {verdict.message}"
    return monitor, Verdict(status=verdict.status, message=message, cause=Cause.FOREIGN)


def _port(agents: Agents, root: Host, wanted: int | None) -> tuple[int, str]:
    """Return a free port of the root's host; or 0 and the reason."""
    try:
        return agents.free_port(root, wanted), ""
    except LaunchError as error:
        return 0, str(error)
