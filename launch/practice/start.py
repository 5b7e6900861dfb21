"""Start of a local test cluster: keys, namespaces, network, and sshd on each host."""

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from im2rec_tools.files import create_folder, remove
from launch.hosts import ROOT
from launch.practice import network
from launch.practice.mounts import mount_plan
from launch.practice.namespaces import APART, environment
from launch.practice.state import KEYS, Cluster, Node, forget, runs, save, started
from launch.remote import limits
from launch.remote.errors import LaunchError, error_line

# Programs that run a command as another user, by their names in /proc.
_BECOME = ("sudo\n", "su\n", "doas\n")


def owner_of_terminal() -> int | None:
    """Return the leader of the session in which a command was typed.

    None if it is the command.

    sudo may give its command a session that ends with it; then it is the session of sudo.
    """
    leader = os.getsid(0)
    while started(leader) and Path(f"/proc/{leader}/comm").read_text() in _BECOME:
        parent = Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[1]
        leader = os.getsid(int(parent))
    return leader if started(leader) and leader != os.getpid() else None


_PACKAGES = {
    "util-linux": ("unshare", "nsenter", "setpriv", "setsid"),
    "iproute2": ("ip", "tc"),
    "openssh-server": ("sshd",),
    "openssh-client": ("ssh", "ssh-keygen"),
}
_CLUSTER = "local test cluster"
_KERNEL = "Use another machine, or a container that may create network namespaces (--privileged)"
_NETWORK = b"link add dev switch type bridge\nlink add dev x0 type veth peer name x1\n"


def _program(name: str) -> str:
    """Return the path of a program, '' if there is none."""
    return shutil.which(name, path=environment()["PATH"]) or ""


def missing() -> str:
    """Return why this user cannot start a local test cluster on this machine.

    '' if possible.
    """
    if os.geteuid() != 0:
        return error_line(_CLUSTER, expected="root", fix="Run the command with sudo")
    lacking = [package for package, names in _PACKAGES.items() if not all(map(_program, names))]
    if lacking:
        fix = f"Run: apt-get install {' '.join(lacking)}"
        return error_line(_CLUSTER, problem="programs are missing", fix=fix)
    try:
        done = subprocess.run(
            [*APART, "ip", "-batch", "-"],
            input=_NETWORK,
            env=environment(),
            capture_output=True,
            timeout=limits.COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        seconds = limits.COMMAND_SECONDS
        problem = f"unshare did not end within {seconds} s"
        return error_line(_CLUSTER, expected="namespaces", problem=problem, fix=_KERNEL)
    if done.returncode:
        line = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        expected = "namespaces, bridges and veth in the kernel"
        return error_line(_CLUSTER, expected=expected, problem=line, fix=_KERNEL)
    return ""


World = subprocess.Popen[bytes]


@dataclass(frozen=True, kw_only=True)
class ClusterRequest:
    """Request for a cluster.

    `owner` is a pid (0: none), `home` the size of each /home.
    """

    folder: Path
    names: tuple[str, ...]
    slots: int
    owner: int
    home: str

    @property
    def seconds(self) -> float:
        """Time limit of the start."""
        return limits.PRACTICE_START_SECONDS + limits.PRACTICE_HOST_SECONDS * len(self.names)


@dataclass(frozen=True, kw_only=True)
class Key:
    """Key pair as ssh-keygen writes it."""

    private: str
    public: str


def start(wanted: ClusterRequest, check: Callable[[Cluster], None]) -> Cluster:
    """Start a cluster that passes `check`; remove one that does not."""
    deadline = time.monotonic() + wanted.seconds
    mounts = asdict(mount_plan(wanted.home))
    client, *host_keys = _keys(1 + len(wanted.names), wanted.folder)
    keys = dict(zip(wanted.names, host_keys, strict=True))
    same = {"sshd": _program("sshd"), "client_key": client.public, "mounts": mounts}
    hosts = [{"name": name, "host_key": key.private, **same} for name, key in keys.items()]
    with _world(wanted) as world:
        try:
            cluster = _populate(wanted, world, hosts, deadline)
            _await_sshd(cluster, deadline)
            check(cluster)
            public = {name: key.public for name, key in keys.items()}
            save(cluster, wanted.slots, public, client.private)
            _send(world, "stay")
        except BaseException:
            forget(wanted.folder)
            raise
    return cluster


def _keys(count: int, within: Path) -> list[Key]:
    folder = within / KEYS
    try:
        create_folder(folder)
        folder.chmod(0o700)
        paths = [folder / str(number) for number in range(count)]
        for path in paths:
            network.run(
                *["ssh-keygen", "-q", "-t", "ed25519", "-N"], "", "-C", "practice", "-f", str(path)
            )
        return [
            Key(private=path.read_text(), public=path.with_suffix(".pub").read_text())
            for path in paths
        ]
    finally:
        remove(folder)


@contextmanager
def _world(wanted: ClusterRequest) -> Iterator[World]:
    """Start the detached world process.

    It ends with this context unless it receives stay.
    """
    words = ["setsid", "--fork", *APART, sys.executable, "-S", "-m", "launch.practice.namespaces"]
    try:
        owners = [os.pidfd_open(wanted.owner)] if wanted.owner else []  # readable once it has ended
    except ProcessLookupError:
        raise LaunchError(
            error_line(
                "owner",
                problem=f"process {wanted.owner} has ended",
                fix="Start the cluster from a program that runs",
            )
        ) from None
    try:
        with (wanted.folder / "world.log").open("wb") as log:
            world = subprocess.Popen(
                [*words, *map(str, owners)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                pass_fds=owners,
                cwd=ROOT,
                env=environment(),
            )
    finally:
        for fd in owners:
            os.close(fd)
    with world:
        yield world


def _populate(
    wanted: ClusterRequest, world: World, hosts: list[dict[str, Any]], deadline: float
) -> Cluster:
    """Let the world start its hosts, and connect them."""
    outer = _receive(wanted, world, deadline)["outer"]
    link, subnet = network.claim(outer)
    addresses = {name: str(subnet[number]) for number, name in enumerate(wanted.names, 1)}
    names = "".join(f"{address} {name}\n" for name, address in addresses.items())
    _send(world, json.dumps({"folder": str(wanted.folder), "names": names, "hosts": hosts}))
    answers = [_receive(wanted, world, deadline) for _ in wanted.names]
    pids = {one["name"]: one["pid"] for one in answers}
    nodes = tuple(
        Node(name=name, address=address, pid=pids[name], started=started(pids[name]))
        for name, address in addresses.items()
    )
    network.wire(outer, nodes)
    return Cluster(
        folder=wanted.folder,
        nodes=nodes,
        pid=outer,
        started=started(outer),
        link=link,
        address=network.master(subnet),
    )


def _send(world: World, line: str) -> None:
    assert world.stdin is not None
    with suppress(BrokenPipeError):  # its log has the cause, which `_receive` reads
        world.stdin.write(f"{line}\n".encode())


def _receive(wanted: ClusterRequest, world: World, deadline: float) -> dict[str, Any]:
    """Return the next message of the world, or of a host in it."""
    assert world.stdout is not None
    ready, _, _ = select.select([world.stdout], [], [], max(0.0, deadline - time.monotonic()))
    line = world.stdout.readline() if ready else b""
    if not line:
        why = f"no message within {wanted.seconds:.0f} s"
        for log in (wanted.folder / f"{name}.log" for name in reversed(("world", *wanted.names))):
            text = log.read_text(errors="replace").strip() if log.exists() else ""
            why = f"{text.splitlines()[-1]} ({log.name})" if text else why
        raise LaunchError(
            error_line(
                wanted.folder,
                problem=f"the cluster did not start: {why}",
                fix="See the logs in this folder",
            )
        )
    message: dict[str, Any] = json.loads(line)
    return message


def _await_sshd(cluster: Cluster, deadline: float) -> None:
    for node in cluster.nodes:
        while not _greets(node.address):
            log = cluster.folder / f"{node.name}.log"
            if not runs(node) or time.monotonic() > deadline:
                lines = (log.read_text(errors="replace").strip() or "empty log").splitlines()
                raise LaunchError(
                    error_line(
                        node.name,
                        problem=f"sshd does not answer: {lines[-1]} ({log})",
                        fix="See its log",
                    )
                )
            time.sleep(0.02)


def _greets(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
