"""State of a local test cluster: its files, and whether it still runs."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import create, remove, write_text
from launch.remote.errors import LaunchError

_STATE, _HOSTFILE, _CONFIG, _KNOWN, _KEY = (
    "state.json",
    "hostfile",
    "ssh_config",
    "known_hosts",
    "id_ed25519",
)
# The state is written first and removed last: it marks the folder of a cluster.
_ALL = (_STATE, _HOSTFILE, _CONFIG, _KNOWN, _KEY)
# Folder for the hosts' keys during the start of a cluster.
KEYS = ".practice-keys"


@dataclass(frozen=True, kw_only=True)
class Node:
    """Host of a local test cluster: its numeric address, and its first process.

    started   when that process started, in clock ticks since boot, because pids are reused
    """

    name: str
    address: str
    pid: int
    started: int


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A running local test cluster.

    pid, started  the process that the cluster ends with
    link          the machine's network interface to it
    address       the machine's address for the hosts
    """

    folder: Path
    nodes: tuple[Node, ...]
    pid: int
    started: int
    link: str
    address: str

    @property
    def hostfile(self) -> Path:
        """Hosts file, with lines such as 'node01 slots=2'."""
        return self.folder / _HOSTFILE

    @property
    def ssh_config(self) -> Path:
        """SSH configuration for `ssh -F`: address, key and host key of each host."""
        return self.folder / _CONFIG


def started(pid: int) -> int:
    """Return a process's start in clock ticks since boot; 0 if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def runs(one: Cluster | Node) -> bool:
    """Return whether the first process still runs."""
    return started(one.pid) == one.started


@contextmanager
def room(folder: Path) -> Iterator[None]:
    """Create and lock the folder, and remove an ended cluster from it.

    Raises LaunchError if a cluster runs or starts there, other files are in it, or the block
    cannot write.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LaunchError(
            error_line(folder, problem=f"cannot be created ({error.strerror})")
        ) from error
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LaunchError(
                error_line(
                    folder,
                    problem="another practice.up uses this folder",
                    fix="Wait for it, or use another --dir",
                )
            ) from None
        _clear(folder)
        yield
    except (OSError, DataError) as error:
        why = getattr(error, "strerror", None) or error
        raise LaunchError(
            error_line(
                folder,
                problem=f"the cluster cannot be started ({why})",
                fix="Free disk space, or name another folder with --dir",
            )
        ) from error
    finally:
        os.close(held)


def _clear(folder: Path) -> None:
    cluster = read(folder)
    if cluster and runs(cluster):
        raise LaunchError(
            error_line(
                folder,
                problem=f"a local test cluster of {len(cluster.nodes)} hosts already runs",
                fix="End it with 'fab practice.down', or name another folder with --dir",
            )
        )
    if cluster:
        forget(folder)
    for name in _ALL:
        if (folder / name).exists():
            raise LaunchError(
                error_line(
                    folder / name,
                    problem="not of a local test cluster",
                    fix="Name another folder with --dir",
                )
            )


def save(cluster: Cluster, slots: int, host_keys: dict[str, str], client_key: str) -> None:
    """Write the files to use a cluster; keys are texts of ssh-keygen."""
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
    """Return the cluster of a folder, running or not; None if there is none."""
    path = folder / _STATE
    try:
        values = json.loads(path.read_text())
        nodes = tuple(Node(**node) for node in values.pop("nodes"))
        return Cluster(nodes=nodes, **values | {"folder": Path(values["folder"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LaunchError(
            error_line(path, expected=f"a state that practice.up wrote ({error})", fix="Remove it")
        ) from error


def forget(folder: Path) -> None:
    """Remove the files to use a cluster; its logs stay."""
    for name in (KEYS, *reversed(_ALL)):
        remove(folder / name)
