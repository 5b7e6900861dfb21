"""The plan of a job: every process with its host, role, environment and command. Pure."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.engines.catalog import ENGINES
from bench.settings import secrets
from bench.trial import Trial
from launch.hosts import Host
from launch.remote.errors import LaunchError


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a job; `env` is what it gets beside its host's own environment.

    cores and gpus are those of its host that it uses, empty where it is free to use any or none.
    A bare one does not inherit variables whose names are those of secrets.
    """

    host: Host
    role: str
    index: int
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    cores: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    bare: bool = False

    @property
    def id(self) -> str:
        """The name of the process and its log: 'worker-0'."""
        return f"{self.role}-{self.index}"


def plan(
    trial: Trial, hosts: Sequence[Host], port: int, scheduler: Host | None = None
) -> list[Process]:
    """The job's processes in the order of their start: scheduler, servers, workers.

    Hosts are filled one after another. `port` is the scheduler's, on a host of its own or, where
    there is none, on the first. Servers stand beside the workers, on the same cores where devices
    are cores, or on hosts of their own.
    """
    if trial.hosts > len(hosts):
        layout = trial.layout
        alone = f" and {layout.server_hosts} for servers alone" if layout.server_hosts else ""
        raise LaunchError(
            f"{trial.name} needs {trial.worker_hosts} hosts of {layout.devices_per_host} "
            f"devices{alone}, there are {len(hosts)}"
        )
    first = scheduler or hosts[0]
    root = (first.address, port)
    processes = [_process(trial, first, root, "scheduler", 0)] if trial.servers else []
    for role, count in (("server", trial.servers), ("worker", trial.workers)):
        for index in range(count):
            processes.append(_process(trial, hosts[_host(trial, role, index)], root, role, index))
    return processes


def dmlc_variables(
    role: str, host: Host, scheduler: tuple[str, int], workers: int, servers: int
) -> dict[str, str]:
    """The environment from which ps-lite learns its role and the address of the scheduler."""
    return {
        "DMLC_ROLE": role,
        "DMLC_PS_ROOT_URI": scheduler[0],
        "DMLC_PS_ROOT_PORT": str(scheduler[1]),
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_NODE_HOST": host.address,
    }


def _process(trial: Trial, host: Host, root: tuple[str, int], role: str, index: int) -> Process:
    env: dict[str, str] = {}
    if trial.layout.device == "cpu" and trial.mode != "test-io":
        env["OMP_NUM_THREADS"] = "1"
    env |= secrets.variables(trial.layout.env)
    if trial.servers:
        env |= dmlc_variables(role, host, root, trial.workers, trial.servers)
    if role == "worker" and trial.mode == "real" and trial.servers:
        on_host = trial.layout.devices_per_host // trial.layout.devices_per_worker
        env["MXSCALE_LOCAL"] = f"{index % on_host}/{on_host}"
    if host.libraries and not trial.mxnet.python:
        env["LD_LIBRARY_PATH"] = os.pathsep.join(host.libraries)
    gpus = _gpus(trial, host, role, index)
    layout = trial.layout
    shared = min(layout.devices, layout.devices_per_host) > layout.devices_per_worker
    if layout.device == "gpu" and (role != "worker" or shared):  # by several workers of a host
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    return Process(
        host=host,
        role=role,
        index=index,
        argv=(trial.mxnet.python or host.python, *ENGINES[trial.engine](trial, role, index)),
        env=env,
        cores=_cores(trial, host, role, index),
        gpus=gpus,
        bare=role != "worker",
    )


def _host(trial: Trial, role: str, index: int) -> int:
    """The place in the list of hosts of a process."""
    if role == "server" and trial.layout.server_hosts:
        return trial.worker_hosts + index % trial.layout.server_hosts
    if role == "server" and trial.layout.servers_per_host:
        return index // trial.layout.servers_per_host
    return index * trial.layout.devices_per_worker // trial.layout.devices_per_host


def _cores(trial: Trial, host: Host, role: str, index: int) -> tuple[int, ...]:
    """One core a CPU device; where a host has fewer, devices share them (and are emulated).

    A server has the cores of the worker it stands beside, or all that the host's devices have.
    """
    if (
        trial.layout.device == "gpu"
        or trial.mode == "test-io"
        or not host.cores
        or role == "scheduler"
    ):
        return ()
    if role == "server" and (trial.layout.server_hosts or trial.layout.servers_per_host):
        return () if trial.layout.server_hosts else host.cores[: trial.layout.devices_per_host]
    slots = _slots(trial, index)
    return tuple(sorted({host.cores[slot % len(host.cores)] for slot in slots}))


def _slots(trial: Trial, index: int) -> range:
    """The devices of a worker, counted on its host."""
    first = index * trial.layout.devices_per_worker % trial.layout.devices_per_host
    return range(first, first + trial.layout.devices_per_worker)


def _gpus(trial: Trial, host: Host, role: str, index: int) -> tuple[int, ...]:
    """The worker's GPUs of its host; where a host has fewer than it plays, workers share them."""
    if trial.layout.device != "gpu" or role != "worker":
        return ()
    count = host.gpus or trial.layout.devices_per_host
    return tuple(slot % count for slot in _slots(trial, index))


def emulated(trial: Trial, hosts: Sequence[Host]) -> bool:
    """Whether a host of the job, or a machine that plays several, runs more devices than it has."""
    most = min(trial.layout.devices, trial.layout.devices_per_host)
    job = hosts[: trial.worker_hosts]
    if any(most > host.devices(trial.layout.device) for host in job):
        return True
    shared = Counter(host.machine for host in job if host.machine)
    cores = {name: {c for h in job if h.machine == name for c in h.cores} for name in shared}
    return trial.layout.device == "cpu" and any(
        count > 1 and count * most > len(cores[name]) for name, count in shared.items()
    )


def describe(processes: Sequence[Process]) -> list[str]:
    """Two lines per process: its host and name, and its command, which a shell there takes."""
    lines = []
    for process in processes:
        pinned = f" cores {','.join(map(str, process.cores))}" if process.cores else ""
        lines += [f"{process.host.name} {process.id}{pinned}", f"    {command_line(process)}"]
    return lines


def command_line(process: Process) -> str:
    """What a person would type on its host to start it: environment, cores, command."""
    env = [secrets.assignment(name, value) for name, value in process.env.items()]
    taskset = ["taskset", "-c", ",".join(map(str, process.cores))] if process.cores else []
    return " ".join([*env, *taskset, secrets.command_line(process.argv)])
