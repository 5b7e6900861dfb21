"""Plan of a job: every process with its host, role, environment and command. Pure."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bench.engines.catalog import ENGINES
from bench.engines.engine import Place
from bench.engines.mxnet import MXNET
from bench.settings import secrets
from bench.settings.point_names import point_names
from bench.trial import Trial
from launch.hosts import Host
from launch.remote.errors import LaunchError, error_line

# Roles that are spread over the hosts; any other is beside the root.
_PLACED = ("worker", "server")


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a job.

    env           variables in addition to its host's own environment
    cores, gpus   those of its host that it uses; empty if it may use any, or none
    bare          whether it does not inherit variables with the names of secrets
    foreign       beginnings of the names of further variables that it does not inherit
    family        whether its descendants compute for it, so that their CPU time counts
    listens       HOST:PORT at which the job's other processes meet it; '' unless it is the root
    """

    host: Host
    role: str
    index: int
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cores: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    bare: bool = False
    foreign: tuple[str, ...] = MXNET.foreign
    family: bool = False
    listens: str = ""

    @property
    def id(self) -> str:
        """Name of the process and its log: 'worker-0'."""
        return f"{self.role}-{self.index}"


def plan(
    trial: Trial, hosts: Sequence[Host], port: int, scheduler: Host | None = None
) -> list[Process]:
    """Return the job's processes in start order, as the engine has them.

    Hosts are filled one after another. `port` is that of the process that the others meet at; the
    scheduler may have a host of its own. Servers share the workers' hosts (and cores, if devices
    are cores) or have hosts of their own. Raises LaunchError if there are too few hosts.
    """
    check_host_count(trial, hosts)
    first = root_host(trial, hosts, scheduler)
    root = (first.address, port)
    slots = host_slots(trial, hosts)
    processes = []
    for role, count in ENGINES[trial.engine].roles(trial):
        for index in range(count):
            host = hosts[_host(trial, role, index)] if role in _PLACED else first
            place = Place(role=role, index=index, address=host.address, root=root, hosts=slots)
            processes.append(_process(trial, host, place))
    return processes


def check_host_count(trial: Trial, hosts: Sequence[Host]) -> None:
    """Raise LaunchError if the job needs more hosts."""
    if trial.hosts > len(hosts):
        layout = trial.layout
        alone = f" and {layout.server_hosts} for servers only" if layout.server_hosts else ""
        wanted = f"{trial.worker_hosts} hosts with {layout.devices_per_host} devices{alone}"
        fix = "Add hosts to the hosts file, or reduce devices in the sweep"
        raise LaunchError(error_line(trial.name, expected=wanted, got=len(hosts), fix=fix))


def root_host(trial: Trial, hosts: Sequence[Host], scheduler: Host | None = None) -> Host:
    """Return the host of the process that the others meet at."""
    role = trial.root.partition("-")[0]
    return scheduler if scheduler and role not in _PLACED else hosts[0]


def host_slots(trial: Trial, hosts: Sequence[Host]) -> tuple[tuple[str, int], ...]:
    """Return the address and the number of devices of each host with workers."""
    full, total = trial.layout.devices_per_host, trial.layout.devices
    used = hosts[: trial.worker_hosts]
    return tuple((one.address, min(full, total - n * full)) for n, one in enumerate(used))


def _process(trial: Trial, host: Host, place: Place) -> Process:
    role, index, root = place.role, place.index, place.root
    env: dict[str, str] = {}
    if trial.layout.device == "cpu" and trial.mode != "test-io":
        env["OMP_NUM_THREADS"] = "1"
    env |= secrets.variables(trial.layout.env)
    engine = ENGINES[trial.engine]
    env |= engine.environment(trial, place)
    reads = trial.mode == "test-io" and trial.workers > 1
    if reads or (role == "worker" and trial.mode == "real" and trial.comm.spans):
        on_host = trial.layout.devices_per_host // trial.layout.devices_per_worker
        env["MXSCALE_LOCAL"] = f"{index % on_host}/{on_host}"
    if host.libraries and not trial.mxnet.python:
        env["LD_LIBRARY_PATH"] = os.pathsep.join(host.libraries)
    gpus = _gpus(trial, host, role, index)
    layout, cores = trial.layout, _cores(trial, host, role, index)
    shared = min(layout.devices, layout.devices_per_host) > layout.devices_per_worker
    if layout.device == "gpu" and (role != "worker" or shared):  # by several workers of a host
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    return Process(
        host=host,
        role=role,
        index=index,
        argv=(trial.mxnet.python or host.python, *engine.command(trial, role, index)),
        env=env,
        cores=cores,
        gpus=gpus,
        bare=role != "worker",
        foreign=engine.foreign,
        # A worker with many cores decodes images in processes.
        family=bool(trial.program.command) or (role == "worker" and not cores),
        listens=f"{root[0]}:{root[1]}" if f"{role}-{index}" == trial.root else "",
    )


def _host(trial: Trial, role: str, index: int) -> int:
    """Return the index of a process's host in the list."""
    if role == "server" and trial.layout.server_hosts:
        return trial.worker_hosts + index % trial.layout.server_hosts
    if role == "server" and trial.layout.servers_per_host:
        return index // trial.layout.servers_per_host
    return index * trial.layout.devices_per_worker // trial.layout.devices_per_host


def _cores(trial: Trial, host: Host, role: str, index: int) -> tuple[int, ...]:
    """Return one core per CPU device.

    With fewer cores, devices share them (oversubscribed). A single reader of images uses any core,
    several have a core each, as workers do.

    A server shares the cores of its worker, or all cores of the host's devices.
    """
    if (
        trial.layout.device == "gpu"
        or (trial.mode == "test-io" and trial.workers == 1)
        or not host.cores
        or role not in _PLACED
    ):
        return ()
    if role == "server" and (trial.layout.server_hosts or trial.layout.servers_per_host):
        return () if trial.layout.server_hosts else host.cores[: trial.layout.devices_per_host]
    slots = _slots(trial, index)
    return tuple(sorted({host.cores[slot % len(host.cores)] for slot in slots}))


def _slots(trial: Trial, index: int) -> range:
    """Return the indices of a worker's devices on its host."""
    layout = trial.layout
    count = min(layout.devices_per_worker, layout.devices_per_host)  # a program has several hosts
    first = index * layout.devices_per_worker % layout.devices_per_host
    return range(first, first + count)


def _gpus(trial: Trial, host: Host, role: str, index: int) -> tuple[int, ...]:
    """Return the worker's GPUs on its host.

    Workers share them if the host has too few.
    """
    if trial.layout.device != "gpu" or role != "worker":
        return ()
    count = host.gpus or trial.layout.devices_per_host
    return tuple(slot % count for slot in _slots(trial, index))


def emulated(trial: Trial, hosts: Sequence[Host]) -> bool:
    """Return whether a host, or its machine, runs more devices than it has."""
    return any(True for _ in _oversubscribed(trial, hosts))


def oversubscription(trial: Trial, hosts: Sequence[Host]) -> list[str]:
    """Return a plan's comment on hosts with too few devices; none if there are enough."""
    return [
        f"# {trial.name}: oversubscribed: {text}; not valid as a performance result"
        for text, _ in _first_shortage(trial, hosts)
    ]


def _first_shortage(trial: Trial, hosts: Sequence[Host]) -> list[tuple[str, str]]:
    """Return the first lack of devices as two texts, or nothing.

    They are '4 devices on 2 cores of node01', and 'no core of node01' or '' if it has some.
    """
    kind = {"cpu": "core", "gpu": "GPU"}[trial.layout.device]
    return [
        (
            f"{devices} devices on {there} {kind}{'s' * (there != 1)} {where}",
            "" if there else f"no {kind} {where}",
        )
        for where, devices, there in islice(_oversubscribed(trial, hosts), 1)
    ]


def resource_warnings(trials: Sequence[Trial], hosts: Sequence[Host]) -> list[str]:
    """Return the warnings of a plan on too few devices and on too many threads."""
    return [*device_warnings(trials, hosts), *thread_warnings(trials, hosts)]


def host_warnings(trials: Sequence[Trial]) -> list[str]:
    """Return a warning if trials need more hosts than this machine."""
    many = [one for one in trials if one.hosts > 1 and not one.scripted]
    if not many:
        return []
    names, count = point_names(trials), max(one.hosts for one in many)
    first = _first_of([names[trials.index(one)] for one in many])
    return [f"warning: needs {count} hosts; give --hostfile FILE or --hosts LIST ({first})"]


def device_warnings(trials: Sequence[Trial], hosts: Sequence[Host]) -> list[str]:
    """Return a warning per host with too few devices, with the points that need more."""
    found: dict[str, list[str]] = {}
    for trial, name in zip(trials, point_names(trials), strict=True):
        for some, none in _first_shortage(trial, hosts) if not trial.scripted else ():
            text = f"{none}; --engine simulated needs none" if none else some
            found.setdefault(text, []).append(name)
    return [f"warning: {text} ({_first_of(names)})" for text, names in found.items()]


def _first_of(names: Sequence[str]) -> str:
    return f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"


def thread_warnings(trials: Sequence[Trial], hosts: Sequence[Host]) -> list[str]:
    """Return a warning for each OMP_NUM_THREADS that exceeds the cores of a worker."""
    found: dict[tuple[int, int], list[str]] = {}
    for trial, name in zip(trials, point_names(trials), strict=True):
        asked = secrets.variables(trial.layout.env).get("OMP_NUM_THREADS", "").partition(",")[0]
        cores = len(_cores(trial, hosts[0], "worker", 0)) if asked.isdecimal() else 0
        if not trial.scripted and cores and int(asked) > cores:
            found.setdefault((int(asked), cores), []).append(name)
    return [
        f"warning: OMP_NUM_THREADS={threads} exceeds the {cores} core{'s' * (cores > 1)} that a "
        f"worker is bound to, so its threads share {'them' if cores > 1 else 'it'} "
        f"({_first_of(names)})"
        for (threads, cores), names in found.items()
    ]


def _oversubscribed(trial: Trial, hosts: Sequence[Host]) -> Iterator[tuple[str, int, int]]:
    """Yield hosts and machines with too few devices: where, devices used, available."""
    most = min(trial.layout.devices, trial.layout.devices_per_host)
    job = hosts[: trial.worker_hosts]
    for host in job:
        there = host.devices(trial.layout.device)
        if most > there:
            yield f"of {host.name}", most, there
    if trial.layout.device != "cpu":
        return
    shared = Counter(host.machine for host in job if host.machine)
    for name, count in shared.items():
        cores = {core for host in job if host.machine == name for core in host.cores}
        if count > 1 and count * most > len(cores):
            yield f"of the machine that {count} hosts share", count * most, len(cores)


def describe(processes: Sequence[Process]) -> list[str]:
    """Return two lines per process: host and name, then its shell command."""
    lines = []
    for process in processes:
        pinned = f" cores {','.join(map(str, process.cores))}" if process.cores else ""
        lines += [f"{process.host.name} {process.id}{pinned}", f"    {command_line(process)}"]
    return lines


def command_line(process: Process) -> str:
    """Return its shell command on its host: environment, cores, command."""
    env = [secrets.assignment(name, value) for name, value in process.env.items()]
    taskset = ["taskset", "-c", ",".join(map(str, process.cores))] if process.cores else []
    return " ".join([*env, *taskset, secrets.command_line(process.argv)])
