"""Host keys: a host's own is checked against those a person has, never taken in silence."""

import os
from pathlib import Path
from typing import Any

from fabric import Connection
from paramiko.client import MissingHostKeyPolicy, SSHClient
from paramiko.hostkeys import HostKeys
from paramiko.ssh_exception import SSHException

from launch.errors import LaunchError

_GLOBAL = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
_USER = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
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
            with self._file.open("a", encoding="utf-8") as file:
                file.write(line)
        except OSError as error:
            raise LaunchError(f"{self._file}: cannot be written ({error.strerror})") from error


def check_keys(connection: Connection, *, accept_new: bool) -> None:
    """Makes the connection refuse a key that differs from what is known, or is not known.

    Fabric knows no files of known hosts and takes any key. A new one is taken where the person
    says so, or their ssh configuration does (StrictHostKeyChecking).
    """
    said = connection.ssh_config
    files = _files(said.get("userknownhostsfile", _USER))
    for file in [*_files(said.get("globalknownhostsfile", _GLOBAL)), *files]:
        _load(connection.client.get_host_keys(), file)
    takes = accept_new or said.get("stricthostkeychecking", "").lower() in _TAKES_NEW
    policy = _AcceptNew(files[0]) if takes else _Refuse(files)
    connection.client.set_missing_host_key_policy(policy)


def _files(words: str) -> list[Path]:
    named = [word.strip('"') for word in words.split()]
    return [Path(os.path.expanduser(name)) for name in named] or [Path(os.devnull)]  # noqa: PTH111


def _load(keys: HostKeys, file: Path) -> None:
    if file.is_file():
        try:
            keys.load(str(file))
        except (OSError, ValueError) as error:
            raise LaunchError(f"{file}: cannot be read as known hosts: {error}") from error
