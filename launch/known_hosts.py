"""Host keys: a host's own is checked against those a person has, never taken in silence."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

from fabric import Connection
from paramiko.client import MissingHostKeyPolicy, SSHClient
from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey
from paramiko.ssh_exception import SSHException

from launch.errors import LaunchError

_GLOBAL = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"]
_USER = ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]
_APPENDING = threading.Lock()
_TAKES_NEW = {"accept-new", "no", "off"}


class UnknownKeyError(SSHException):
    """The host's key stands in no file of known hosts."""


class _Refuse(MissingHostKeyPolicy):
    def __init__(self, files: list[Path]) -> None:
        self._files = files

    def missing_host_key(self, client: SSHClient, hostname: str, key: Any) -> None:
        """Raises UnknownKeyError with the key's fingerprint."""
        raise UnknownKeyError(
            f"its key ({key.get_name()} {key.fingerprint}) is not in {self._files[0]}; compare it "
            f"with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_..._key.pub there), then log "
            f"in once with ssh, or give --accept-new"
        )


class _AcceptNew(MissingHostKeyPolicy):
    def __init__(self, file: Path) -> None:
        self._file = file

    def missing_host_key(self, client: SSHClient, hostname: str, key: Any) -> None:
        """Appends the key to the file of known hosts, which holds it from now on."""
        line = f"{hostname} {key.get_name()} {key.get_base64()}\n"
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _APPENDING, self._file.open("a+b") as file:
                file.seek(max(0, file.tell() - 1))
                start = b"" if file.read() in {b"", b"\n"} else b"\n"
                file.write(start + line.encode())
        except OSError as error:
            raise LaunchError(f"{self._file}: cannot be written ({error.strerror})") from error


def check_keys(connection: Connection, *, accept_new: bool) -> None:
    """Makes the connection refuse a key that differs from what is known, or is not known.

    Fabric knows no files of known hosts and takes any key. A new one is taken where the person
    says so, or their ssh configuration does (StrictHostKeyChecking).
    """
    said = connection.ssh_config
    files = files_of(connection)
    for file in [*_files(said.get("globalknownhostsfile", _GLOBAL)), *files]:
        _load(connection.client.get_host_keys(), file)
    takes = accept_new or said.get("stricthostkeychecking", "").lower() in _TAKES_NEW
    policy = _AcceptNew(files[0]) if takes else _Refuse(files)
    connection.client.set_missing_host_key_policy(policy)


def files_of(connection: Connection) -> list[Path]:
    """The person's own files of known hosts, for this host; new keys go to the first."""
    return _files(connection.ssh_config.get("userknownhostsfile", _USER))


def _files(names: list[str]) -> list[Path]:
    named = [name for name in names if name.lower() != "none"]
    return [Path(os.path.expanduser(name)) for name in named] or [Path(os.devnull)]  # noqa: PTH111


def _load(keys: HostKeys, file: Path) -> None:
    if not file.is_file():
        return
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise LaunchError(f"{file}: cannot be read as known hosts: {error.strerror}") from error
    for line in lines:
        with contextlib.suppress(SSHException, InvalidHostKey):  # ssh passes over such lines too
            entry = HostKeyEntry.from_line(line)
            if entry is not None:
                for name in entry.hostnames:
                    keys.add(name, entry.key.get_name(), entry.key)
