"""Sweeps on the hosts of a local test cluster, and processes left there."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.sweep import Sweep
from bench.trial import Trial
from launch.hosts import Host, Login
from launch.job.monitor import Deadlines
from launch.practice.cluster import Cluster, inside
from launch.preflight.check import examine
from launch.preflight.findings import HostReport, Requirements
from launch.sweep import ClusterSetup, points, sweep
from launch.transport.ssh import Ssh
from results.record import Record
from results.store import Store
from tests.support.programs.jobs import SHORT, Updates, disturbed

FAKE = Requirements(engines=())


def listed(cluster: Cluster) -> list[Host]:
    return [
        Host(name=node.name, address="", cpus=2, gpus=0, login=Login(host=node.name))
        for node in cluster.nodes
    ]


def ssh(cluster: Cluster, config: Path | None = None) -> Ssh:
    return Ssh(str(config or cluster.ssh_config))


def looked_at(
    cluster: Cluster,
    wanted: Requirements = FAKE,
    hosts: list[Host] | None = None,
    config: Path | None = None,
) -> dict[str, HostReport]:
    """Return the checked hosts by name."""
    with closing(ssh(cluster, config)) as connections:
        found = examine(hosts or listed(cluster), connections.start, wanted)
    return {one.host.name: one for one in found}


@contextmanager
def running_on(
    cluster: Cluster,
    folder: Path,
    *trials: Trial,
    deadlines: Deadlines = SHORT,
    wanted: Requirements = FAKE,
) -> Iterator[Updates]:
    """Yield the updates of a sweep of these trials over all hosts."""
    what = Sweep(name="t", description="", repeats=1, trials=trials, text="")
    with closing(ssh(cluster)) as connections:
        found = examine(listed(cluster), connections.start, wanted)
        assert [one.problems for one in found] == [()] * len(found)
        hosts = tuple(one.host for one in found)
        where = ClusterSetup(hosts=hosts, deadlines=deadlines, start=connections.start)
        store = Store(folder)
        with closing(store), closing(sweep(what, points(what, where), where, store)) as updates:
            yield updates


def fault(
    cluster: Cluster, folder: Path, trial: Trial, act: Callable[[], object]
) -> tuple[Record, float, list[Record]]:
    """Return a disturbed job's record, the seconds until it, and later records."""
    with running_on(cluster, folder, trial, replaced(trial), deadlines=Deadlines()) as updates:
        record, seconds = disturbed(updates, act)
        after = [update for update in updates if isinstance(update, Record)]
    return record, seconds, after


def replaced(trial: Trial) -> Trial:
    """Return the same job without faults, as another point."""
    return trial.replace(fake_faults=(), lr=0.5)


def processes(cluster: Cluster, name: str) -> list[str]:
    """Return the processes of a host's user, except SSH."""
    done = inside(cluster, name, ["ps", "-u", "bench", "-o", "pid=,args="])
    own = ("sshd:", "ps -u", "/usr/sbin/sshd")
    lines = [line.strip() for line in done.stdout.splitlines()]
    return [line for line in lines if line and not line.partition(" ")[2].startswith(own)]


def empty_within(cluster: Cluster, seconds: float, names: list[str] | None = None) -> bool:
    """Return whether all processes of a job end on the hosts within this time."""
    deadline = time.monotonic() + seconds
    left = names or [node.name for node in cluster.nodes]
    while left := [name for name in left if processes(cluster, name)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def pid_on(cluster: Cluster, name: str, words: str) -> str:
    """Return the host's pid of a process of its user, by words of its command line."""
    found = [line for line in processes(cluster, name) if words in line]
    assert found, (name, words, processes(cluster, name))
    return found[0].split()[0]


def environment() -> dict[str, str]:
    """Return the environment of programs that tests start."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def dead(cluster: Cluster, count: int) -> list[Host]:
    """Return unused addresses of the cluster's subnet, unreachable after 3 s or more."""
    subnet = cluster.nodes[0].address.rpartition(".")[0]
    names = [f"{subnet}.{100 + number}" for number in range(count)]
    return [Host(name=name, address="", cpus=1, gpus=0, login=Login(host=name)) for name in names]


def with_jump(cluster: Cluster, folder: Path) -> Path:
    """Return an SSH configuration with the first host as jump host of the others."""
    blocks = re.split(r"\n(?=Host )", cluster.ssh_config.read_text())
    path = folder / "config"
    path.write_text(
        "\n".join([blocks[0], *(f"{one}\n    ProxyJump node01\n" for one in blocks[1:])])
    )
    return path
