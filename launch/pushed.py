"""What pushes left in a folder: a file that only grows, and that one push at a time may hold.

Standard library only and Python 3.8 or newer, as the receiver that it is sent with.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import fcntl
import json
import os
from typing import Any, NamedTuple

from launch.errors import LaunchError
from launch.paths import check_own, is_below, opened, shown, status

STATE = ".mxscale-pushed"


class Entry(NamedTuple):
    """A file as it was last seen whole.

    size, crc      of its contents; crc32 by zlib
    mtime_ns       its time here, as the file system keeps it
    listed_ns      the time that the master listed, which the file system may have rounded
    put            whether a push wrote it, and may remove it
    """

    size: int
    mtime_ns: int
    listed_ns: int
    crc: int
    put: bool


def entries(content: bytes) -> dict[str, Entry]:
    """What a state file says of each file below its folder, its last line counting."""
    found: dict[str, Entry] = {}
    for line in content.split(b"\n"):
        try:
            name, *values = json.loads(line)
            if not (isinstance(name, str) and is_below(name)):
                continue
            found.pop(name, None)
            if list(map(type, values)) == [int, int, int, int, bool]:
                found[name] = Entry(*values)
        except (ValueError, TypeError, RecursionError):
            pass  # torn: its file is checked by its contents then
    return found


class Pushed:
    """The state file of a folder, held until this process ends."""

    def __init__(self, folder: bytes) -> None:
        path = os.path.join(folder, STATE.encode())
        descriptor = opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._file = open(descriptor, "a+b", buffering=0)  # noqa: SIM115 - held as long as this is
        try:
            check_own(path, descriptor)
            self._lock(folder)
        except LaunchError:
            self.close()
            raise
        self._file.seek(0)
        content = self._file.read()
        self.entries = entries(content)
        if not content.endswith(b"\n"):
            self._file.write(b"\n")  # a line that was torn ends here

    def _lock(self, folder: bytes) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LaunchError(
                f"{shown(folder)}: another push works there; wait for its end (and where hosts "
                f"see one file system, push once)"
            ) from None

    def close(self) -> None:
        """Lets another push have the folder."""
        self._file.close()

    def note(self, name: str, entry: Entry) -> None:
        """Keeps what is known of a file."""
        if self.entries.get(name) != entry:
            self._append([name, *entry])
            self.entries[name] = entry

    def forget(self, name: str) -> None:
        """Keeps that a file is gone."""
        self._append([name])
        del self.entries[name]

    def _append(self, values: list[Any]) -> None:
        self._file.write(json.dumps(values).encode() + b"\n")


def is_noted(path: bytes, entry: Entry) -> bool:
    """Whether a file or link is as it was when it was noted."""
    found = status(path)
    return found is not None and (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns)
