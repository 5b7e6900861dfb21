"""Host keys: check of a host's key against known_hosts.

No key is accepted silently.
"""

import binascii
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fabric import Connection
from paramiko.client import MissingHostKeyPolicy, SSHClient
from paramiko.hostkeys import HostKeyEntry, HostKeys
from paramiko.ssh_exception import SSHException

from launch.remote.errors import LaunchError, error_line

_GLOBAL = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"]
_USER = ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
_APPENDING = threading.Lock()
# Bytes of a key or certificate; one of 16384 bits has 2 kB.
_MOST_KEY = 1 << 13
_TAKES_NEW = {"accept-new", "no", "off"}


class UnknownKeyError(SSHException):
    """The host's key is in no file of known hosts."""


class _UnknownKeyPolicy(MissingHostKeyPolicy):
    def __init__(self, file: Path, *, accept: bool) -> None:
        self._file, self._accept = file, accept

    def missing_host_key(self, client: SSHClient, hostname: str, key: Any) -> None:
        """Append an accepted key to the file of known hosts; else raise UnknownKeyError."""
        if not self._accept:
            raise UnknownKeyError(
                error_line(
                    "",
                    problem=f"host key ({key.get_name()} {key.fingerprint}) is not in {self._file}",
                    fix=(
                        "Compare it with the host's own (ssh-keygen -lf "
                        "/etc/ssh/ssh_host_..._key.pub there), then log in once with ssh, or use "
                        "--accept-new"
                    ),
                )
            )
        line = f"{hostname} {key.get_name()} {key.get_base64()}\n"
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _APPENDING, self._file.open("a+b") as file:
                file.seek(max(0, file.tell() - 1))
                start = b"" if file.read() in {b"", b"\n"} else b"\n"
                file.write(start + line.encode())
        except OSError as error:
            problem = f"cannot be written ({error.strerror})"
            raise LaunchError(
                error_line(
                    self._file,
                    problem=problem,
                    fix="Make it writable for you, or log in once with ssh",
                )
            ) from error


class KnownHosts:
    """Files of known hosts, each read once for all hosts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[Path, KeyFile] = {}

    def check_keys(self, connection: Connection, *, accept_new: bool) -> None:
        """Make the connection refuse a different or unknown host key.

        Fabric reads no files of known hosts and accepts any key. A new key is accepted only with
        `accept_new`, or by StrictHostKeyChecking in the SSH configuration.
        """
        config = connection.ssh_config
        files = files_of(connection)
        name = known_as(connection)
        for file in [*_files(config.get("globalknownhostsfile", _GLOBAL)), *files]:
            with self._lock:
                keys = self._read[file] = self._read.get(file) or KeyFile(file)
            for entry in keys.of(name):
                connection.client.get_host_keys().add(name, entry.key.get_name(), entry.key)
        accept = accept_new or config.get("stricthostkeychecking", "").lower() in _TAKES_NEW
        policy = _UnknownKeyPolicy(files[0], accept=accept)
        connection.client.set_missing_host_key_policy(policy)


class KeyFile:
    """Keys of a file by host name; hashed names are tried one by one."""

    def __init__(self, file: Path) -> None:
        self._named: dict[str, list[HostKeyEntry]] = {}
        self._hashed: list[tuple[str, HostKeyEntry]] = []
        for entry in read_entries(file):
            for name in entry.hostnames:
                if name.startswith("|1|"):
                    self._hashed.append((name, entry))
                else:
                    self._named.setdefault(name, []).append(entry)

    def of(self, name: str) -> Iterator[HostKeyEntry]:
        """Yield the entries of a host in the file."""
        yield from self._named.get(name, [])
        for hashed, entry in self._hashed:
            with contextlib.suppress(ValueError, AssertionError):  # not a hash
                if HostKeys.hash_host(name, hashed) == hashed:
                    yield entry


def known_as(connection: Connection) -> str:
    """Return a host's name in known_hosts, with the port if that is not 22."""
    return connection.host if connection.port == 22 else f"[{connection.host}]:{connection.port}"


def files_of(connection: Connection) -> list[Path]:
    """Return the user's files of known hosts for this host; new keys go to the first."""
    return _files(connection.ssh_config.get("userknownhostsfile", _USER))


def _files(names: list[str]) -> list[Path]:
    named = [name for name in names if name.lower() != "none"]
    return [Path(os.path.expanduser(name)) for name in named] or [Path(os.devnull)]  # noqa: PTH111


def read_entries(file: Path) -> Iterator[HostKeyEntry]:
    """Yield the usable entries of a file of known hosts; none if there is no file."""
    if not file.is_file():
        return
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        problem = f"known hosts cannot be read ({error.strerror})"
        raise LaunchError(
            error_line(file, problem=problem, fix="Make it readable for you")
        ) from error
    for line in lines:
        entry = _entry(line)
        if entry is not None:
            yield entry


def _entry(line: str) -> HostKeyEntry | None:
    """Parse the entry of a line; None if it is not usable; ssh skips such lines, too."""
    words = line.split()[:3]
    if len(words) < 3 or words[0].startswith(("#", "@")) or not _is_whole(words[2]):
        return None
    try:
        return HostKeyEntry.from_line(" ".join(words))
    except Exception:  # noqa: BLE001 - paramiko and cryptography raise errors of many classes
        return None


def _is_whole(key: str) -> bool:
    """Whether the fields of a key have their stated lengths; paramiko pads short ones."""
    try:
        blob = binascii.a2b_base64(key)
    except ValueError:
        return False
    at = 0
    while at + 4 <= len(blob):
        at += 4 + int.from_bytes(blob[at : at + 4], "big")
    return 0 < at == len(blob) <= _MOST_KEY
