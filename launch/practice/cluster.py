"""Local test cluster: start, faults and end, for `fab practice.*` and the tests."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from launch.hosts import ROOT
from launch.practice import network
from launch.practice.namespaces import USER
from launch.practice.start import ClusterRequest, missing, start
from launch.practice.state import Cluster, Node, forget, read, room, runs
from launch.remote import limits
from launch.remote.errors import LaunchError, error_line

__all__ = ["NOBODY", "Cluster", "Node", "missing"]

NOBODY = 0
_MOST = 250
_SIZE = re.compile(r"[1-9][0-9]*[kmg]")


def up(
    folder: Path, hosts: int = 4, slots: int = 2, owner: int | None = None, home: str = "2g"
) -> Cluster:
    """Start a cluster; its hosts accept SSH connections when this returns.

    slots  devices of each host in its hosts file
    owner  pid of the process that it ends with; None: this one; NOBODY: it stays until `down`
    home   size of each host's /home: a number and k, m or g

    Raises LaunchError if this machine or user cannot, or one already runs in the folder.
    """
    if not 1 <= hosts <= _MOST:
        raise LaunchError(error_line("--hosts", expected=f"1 to {_MOST}", got=hosts))
    if not _SIZE.fullmatch(home):
        raise LaunchError(
            error_line("--home", expected="a size such as 512m or 2g", got=f"{home!r}")
        )
    if why := missing():
        raise LaunchError(why)
    folder = folder.resolve()
    wanted = ClusterRequest(
        folder=folder,
        names=tuple(f"node{number:02}" for number in range(1, hosts + 1)),
        slots=slots,
        owner=os.getpid() if owner is None else owner,
        home=home,
    )
    with room(folder):
        return start(wanted, _try)


def _try(cluster: Cluster) -> None:
    """Raise LaunchError unless a host can run this interpreter and read this checkout."""
    name = cluster.nodes[0].name
    code = f"open({str(ROOT / 'fabfile.py')!r}).read()"
    done = inside(cluster, name, [sys.executable, "-c", code])
    if done.returncode:
        line = (done.stderr or f"exit code {done.returncode}").strip().splitlines()[-1]
        raise LaunchError(
            error_line(
                name,
                problem=f"user {USER} cannot run {sys.executable} in {ROOT}: {line}",
                fix="Make the checkout and its environment readable for other users",
            )
        )


def load(folder: Path) -> Cluster:
    """Return the cluster that runs in a folder; LaunchError if there is none."""
    cluster = read(folder.resolve())
    if cluster is None or not runs(cluster):
        raise LaunchError(
            error_line(
                folder,
                expected="a local test cluster",
                got="none",
                fix="Start one with 'fab practice.up', or name another folder with --dir",
            )
        )
    return cluster


def down(folder: Path) -> bool:
    """End the cluster of a folder with all its processes.

    Return whether there was one.
    """
    folder = folder.resolve()
    cluster = read(folder)
    if cluster is None:
        return False
    running = runs(cluster)
    if running:
        os.kill(cluster.pid, signal.SIGKILL)
        link = Path("/sys/class/net", cluster.link)
        parts: tuple[Cluster | Node, ...] = (cluster, *cluster.nodes)
        _await_end(folder, lambda: link.exists() or any(runs(one) for one in parts))
    forget(folder)
    return running


def _await_end(name: Path | str, runs: Callable[[], bool]) -> None:
    deadline = time.monotonic() + limits.PRACTICE_END_SECONDS
    while runs():
        if time.monotonic() > deadline:
            seconds = limits.PRACTICE_END_SECONDS
            raise LaunchError(
                error_line(
                    name,
                    problem=f"did not end within {seconds:.0f} s",
                    fix="Run the same command again",
                )
            )
        time.sleep(0.01)


def cut(cluster: Cluster, name: str) -> None:
    """Take a host's link down: packets to it and from it are lost silently."""
    network.turn(cluster, _node(cluster, name), "down")


def mend(cluster: Cluster, name: str) -> None:
    """Take a host's link up again."""
    network.turn(cluster, _node(cluster, name), "up")


def rate(cluster: Cluster, text: str) -> None:
    """Limit every host's link in each direction, such as to '200mbit'.

    'none': no limit.
    """
    network.limit(cluster, [node for node in cluster.nodes if runs(node)], text)


def kill(cluster: Cluster, name: str) -> None:
    """End a host as a power failure does: its link fails before its processes."""
    node = _node(cluster, name)
    network.turn(cluster, node, "down")
    os.kill(node.pid, signal.SIGKILL)
    _await_end(name, lambda: runs(node))


def inside(
    cluster: Cluster, name: str, argv: Sequence[str], user: str = USER
) -> subprocess.CompletedProcess[str]:
    """Run a program on a host without SSH, whether its link is up or not.

    Raises subprocess.TimeoutExpired after a minute.
    """
    enter = f"nsenter --target={_node(cluster, name).pid} --mount --uts --ipc --net --pid"
    become = f"setpriv --reuid={user} --regid={user} --init-groups --reset-env"
    return subprocess.run(
        [*enter.split(), *become.split(), *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limits.PRACTICE_PROGRAM_SECONDS,
        check=False,
    )


def _node(cluster: Cluster, name: str) -> Node:
    """Return the host of a name; LaunchError if there is none, or it was killed."""
    for node in cluster.nodes:
        if node.name == name:
            if runs(node):
                return node
            raise LaunchError(
                error_line(
                    name,
                    problem="the host was killed",
                    fix="Renew the cluster with practice.down and practice.up",
                )
            )
    raise LaunchError(
        error_line(
            name, expected=f"a host from {cluster.nodes[0].name} to {cluster.nodes[-1].name}"
        )
    )
