"""Ledger of a folder: which files were fetched, and from which content."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from im2rec_tools.files import write_text
from im2rec_tools.transfer.sources import RemoteFile

_NAME = ".mxscale-fetched"
_SCHEMA = 2


class Ledger:
    """The fetched files of a folder: one line of JSON per file.

    A file is added just before it takes its name, so that no end of the program leaves a file
    that the next run does not know. Until then, the row of an older file of that name counts.
    """

    def __init__(self, folder: Path) -> None:
        """Read the ledger; damaged lines are skipped."""
        self._path, self._folder = folder / _NAME, folder
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._descriptor = -1
        for row in _rows(self._path):
            self._rows.setdefault(row["name"], []).append(row)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Write what `add` adds, until the block ends. Raises DataError and OSError."""
        header = json.dumps({"schema": _SCHEMA})
        lines = [json.dumps(row) for name in sorted(self._rows) if (row := self._row(name))]
        write_text(self._path, "".join(f"{line}\n" for line in [header, *lines]))
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags)
        try:
            yield
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def is_own(self, name: str) -> bool:
        """Return whether the file is as it was fetched, by size and time of change."""
        return bool(self._row(name))

    def is_current(self, name: str, remote: RemoteFile) -> bool:
        """Return whether the file is as it was fetched from this content."""
        row = self._row(name)
        known = remote.validator or remote.size is not None
        same = remote.size in {None, row.get("size")} and remote.validator == row.get("validator")
        return bool(row and known and same)

    def crc32c(self, name: str) -> str:
        """Return the CRC-32C of a fetched file in hex digits."""
        return str(self._row(name).get("crc32c", ""))

    def add(self, name: str, remote: RemoteFile, crc32c: str, state: os.stat_result) -> None:
        """Add a file in this state. Raises OSError. Threads may call it at the same time."""
        row = {
            "name": name,
            "size": state.st_size,
            "mtime_ns": state.st_mtime_ns,
            "validator": remote.validator,
            "crc32c": crc32c,
        }
        self._rows.setdefault(name, []).append(row)
        if self._descriptor >= 0:
            os.write(self._descriptor, f"{json.dumps(row)}\n".encode())
            os.fsync(self._descriptor)

    def _row(self, name: str) -> dict[str, Any]:
        """Return the row of the existing file; empty if there is none, or another."""
        try:
            found = os.lstat(self._folder / name)
        except OSError:
            return {}
        state = (found.st_size, found.st_mtime_ns)
        rows = self._rows.get(name, [])
        return next((row for row in rows if (row.get("size"), row.get("mtime_ns")) == state), {})


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a ledger; none if it is no regular file of this schema."""
    with suppress(OSError):
        if not stat.S_ISREG(path.lstat().st_mode):
            return
        first, *lines = path.read_bytes().split(b"\n")
        if _parsed(first).get("schema") == _SCHEMA:
            found = map(_parsed, lines)
            yield from (row for row in found if isinstance(row.get("name"), str))


def _parsed(line: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return {}
