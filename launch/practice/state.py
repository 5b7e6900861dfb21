"""State of a practice cluster: what its folder holds, and whether it still runs."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from im2rec_tools.errors import DataError
from im2rec_tools.files import create, remove, write_text
from launch.remote.errors import LaunchError

_STATE, _HOSTFILE, _CONFIG, _KNOWN, _KEY = (
    "state.json",
    "hostfile",
    "ssh_config",
    "known_hosts",
    "id_ed25519",
)
# The state first and away last: it says that the folder is a practice cluster's.
_ALL = (_STATE, _HOSTFILE, _CONFIG, _KNOWN, _KEY)
# Where the keys of hosts are made; it is there while a cluster starts.
KEYS = ".practice-keys"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A practice host: its numeric address, and its first process as the machine counts it.

    started says when that process did, in clock ticks since the machine did: a pid comes again.
    """

    name: str
    address: str
    pid: int
    started: int


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A running practice cluster.

    pid, started  the process that everything in it ends with
    link          the machine's network interface to it
    address       of the machine, as the hosts reach it
    """

    folder: Path
    nodes: tuple[Node, ...]
    pid: int
    started: int
    link: str
    address: str

    @property
    def hostfile(self) -> Path:
        """Lines 'node01 slots=2'."""
        return self.folder / _HOSTFILE

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F`: how each host is reached, with which key, and which key it has."""
        return self.folder / _CONFIG


def started(pid: int) -> int:
    """When a process started, in clock ticks since the machine did; 0 for one that has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def runs(one: Cluster | Node) -> bool:
    """Whether the first process is still the one that it was."""
    return started(one.pid) == one.started


@contextmanager
def room(folder: Path) -> Iterator[None]:
    """Holds the folder, made where there is none, and empties it of a cluster that has ended.

    Raises LaunchError where one runs or starts, where files are in the way, and for what cannot be
    written in the block.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LaunchError(f"{folder}: no folder can be there: {error.strerror}") from error
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LaunchError(f"{folder}: another practice.up is at work there") from None
        _clear(folder)
        yield
    except (OSError, DataError) as error:
        why = getattr(error, "strerror", None) or error
        raise LaunchError(
            f"{folder}: no cluster can be started ({why}); make room, or name another --dir"
        ) from error
    finally:
        os.close(held)


def _clear(folder: Path) -> None:
    cluster = read(folder)
    if cluster and runs(cluster):
        raise LaunchError(
            f"{folder}: a practice cluster of {len(cluster.nodes)} hosts runs already; "
            "end it with practice.down, or name another --dir"
        )
    if cluster:
        forget(folder)
    for name in _ALL:
        if (folder / name).exists():
            raise LaunchError(f"{folder / name}: is no practice cluster's; name another --dir")


def save(cluster: Cluster, slots: int, host_keys: dict[str, str], client_key: str) -> None:
    """Writes everything that is needed to use a cluster; keys are text as ssh-keygen writes it."""
    folder = cluster.folder
    state = json.dumps(asdict(cluster) | {"folder": str(folder)}, indent=1)
    write_text(folder / _STATE, state)
    with create(folder / _KEY, 0o600) as file:
        file.write(client_key.encode())
    known = [f"{node.name},{node.address} {host_keys[node.name]}" for node in cluster.nodes]
    (folder / _KNOWN).write_text("".join(known))
    lines = [f"{node.name} slots={slots}\n" for node in cluster.nodes]
    (folder / _HOSTFILE).write_text("".join(lines))
    (folder / _CONFIG).write_text("\n".join(_config(folder, node) for node in cluster.nodes))


def _config(folder: Path, node: Node) -> str:
    return (
        f"Host {node.name}\n"
        f"    HostName {node.address}\n"
        f"    User bench\n"
        f'    IdentityFile "{folder / _KEY}"\n'
        f"    IdentitiesOnly yes\n"
        f'    UserKnownHostsFile "{folder / _KNOWN}"\n'
    )


def read(folder: Path) -> Cluster | None:
    """The cluster of a folder, running or not; None where there is none."""
    path = folder / _STATE
    try:
        values = json.loads(path.read_text())
        nodes = tuple(Node(**node) for node in values.pop("nodes"))
        return Cluster(nodes=nodes, **values | {"folder": Path(values["folder"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LaunchError(f"{path}: not what practice.up writes ({error}); remove it") from error


def forget(folder: Path) -> None:
    """Removes what was needed to use a cluster; its logs stay."""
    for name in (KEYS, *reversed(_ALL)):
        remove(folder / name)
