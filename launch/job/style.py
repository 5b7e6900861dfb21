"""Variables by which processes of a script find each other, per framework. Pure.

dmlc        MXNet: DMLC_*
torch       torch.distributed with `init_method="env://"`: MASTER_*, RANK, WORLD_SIZE, LOCAL_*
tensorflow  TF_CONFIG, https://www.tensorflow.org/guide/distributed_training#TF_CONFIG
mpi         one process, which starts mpirun with the host list in MXSCALE_HOSTS
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from bench.engines.mxnet import dmlc_variables
from launch.hosts import Host
from launch.job.plan import Process


class Style(StrEnum):
    """Whose variables the processes of a script get."""

    DMLC = "dmlc"
    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    MPI = "mpi"


WITH_SERVERS = {Style.DMLC, Style.TENSORFLOW}


def layout(
    style: Style, hosts: Sequence[Host], workers: int, servers: int, argv: Sequence[str]
) -> list[Process]:
    """Return a job's processes in start order, without variables.

    Server i is on host i % hosts. So is worker i in style dmlc, and the scheduler is on the first
    host. In other styles the workers of a host have consecutive ranks, which some scripts need.
    """
    counts = {"scheduler": int(style is Style.DMLC), "server": servers, "worker": workers}
    return [
        Process(
            host=hosts[_place(style, role, index, workers, len(hosts))],
            role=role,
            index=index,
            argv=tuple(argv),
        )
        for role, count in counts.items()
        for index in range(count)
    ]


def _place(style: Style, role: str, index: int, workers: int, hosts: int) -> int:
    if style is Style.DMLC or role != "worker":
        return index % hosts
    return index * min(hosts, workers) // workers


def listeners(style: Style, job: Sequence[Process]) -> list[Process]:
    """Return the processes that need a port which the others know."""
    first = {Style.DMLC: "scheduler-0", Style.TORCH: "worker-0"}.get(style)
    return [one for one in job if style is Style.TENSORFLOW or one.id == first]


def started(style: Style, job: Sequence[Process]) -> Sequence[Process]:
    """Return the processes that the launcher starts; mpirun starts the others."""
    return job[:1] if style is Style.MPI else job


def variables(
    style: Style, job: Sequence[Process], ports: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Return the variables of each process, by id.

    `ports` has those of the listeners, by id.
    """
    return _VARIABLES[style](job, ports)


def _dmlc(job: Sequence[Process], ports: Mapping[str, int]) -> dict[str, dict[str, str]]:
    scheduler = (job[0].host.address, ports[job[0].id])
    counts = Counter(one.role for one in job)
    numbers = (counts["worker"], counts["server"])
    return {one.id: dmlc_variables(one.role, one.host.address, scheduler, *numbers) for one in job}


def _torch(job: Sequence[Process], ports: Mapping[str, int]) -> dict[str, dict[str, str]]:
    sizes = Counter(one.host.name for one in job)
    local: Counter[str] = Counter()
    found = {}
    for one in job:
        found[one.id] = {
            "MASTER_ADDR": job[0].host.address,
            "MASTER_PORT": str(ports[job[0].id]),
            "RANK": str(one.index),
            "WORLD_SIZE": str(len(job)),
            "LOCAL_RANK": str(local[one.host.name]),
            "LOCAL_WORLD_SIZE": str(sizes[one.host.name]),
        }
        local[one.host.name] += 1
    return found


# Task types; worker 0 is the chief of MultiWorkerMirroredStrategy.
_TASKS = {"worker": "worker", "server": "ps"}


def _tensorflow(job: Sequence[Process], ports: Mapping[str, int]) -> dict[str, dict[str, str]]:
    cluster: dict[str, list[str]] = {}
    for one in job:
        address = f"{one.host.address}:{ports[one.id]}"
        cluster.setdefault(_TASKS[one.role], []).append(address)
    tasks = {one.id: {"type": _TASKS[one.role], "index": one.index} for one in job}
    return {
        id: {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
        for id, task in tasks.items()
    }


def _mpi(job: Sequence[Process], _: Mapping[str, int]) -> dict[str, dict[str, str]]:
    counts = Counter(one.host.address for one in job)
    hosts = ",".join(f"{host}:{count}" for host, count in counts.items())
    return {job[0].id: {"MXSCALE_HOSTS": hosts}}


_VARIABLES = {
    Style.DMLC: _dmlc,
    Style.TORCH: _torch,
    Style.TENSORFLOW: _tensorflow,
    Style.MPI: _mpi,
}
