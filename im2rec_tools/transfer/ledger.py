"""Ledger of a folder: which files were fetched, and from which content."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from im2rec_tools.files import write_text
from im2rec_tools.transfer.sources import RemoteFile

_NAME = ".mxscale-fetched"
_SCHEMA = 1


class Ledger:
    """The fetched files of a folder, by name."""

    def __init__(self, folder: Path) -> None:
        """Read the ledger; one that is damaged counts as empty."""
        self._path, self._folder = folder / _NAME, folder
        self._files: dict[str, dict[str, Any]] = {}
        with suppress(OSError, ValueError, RecursionError):
            found = json.loads(self._path.read_bytes())
            if isinstance(found, dict) and found.get("schema") == _SCHEMA:
                files = found.get("files")
                rows = files.items() if isinstance(files, dict) else ()
                self._files = {name: row for name, row in rows if isinstance(row, dict)}

    def is_own(self, name: str) -> bool:
        """Return whether the file is as it was fetched, by size and time of change."""
        row = self._files.get(name, {})
        return self._state(name) == (row.get("size"), row.get("mtime_ns"))

    def is_current(self, name: str, remote: RemoteFile) -> bool:
        """Return whether the file is as it was fetched from this content."""
        row = self._files.get(name, {})
        content = (row.get("size"), row.get("validator"))
        return self.is_own(name) and content == (remote.size, remote.validator)

    def crc32c(self, name: str) -> str:
        """Return the CRC-32C of a fetched file in hex digits."""
        return str(self._files.get(name, {}).get("crc32c", ""))

    def add(self, name: str, remote: RemoteFile, crc32c: str) -> None:
        """Add a file that exists; `write` stores the ledger."""
        size, mtime_ns = self._state(name)
        self._files[name] = {
            "size": size,
            "mtime_ns": mtime_ns,
            "validator": remote.validator,
            "crc32c": crc32c,
        }

    def write(self) -> None:
        """Write the ledger. Raises DataError."""
        rows = dict(sorted(self._files.items()))
        write_text(self._path, json.dumps({"schema": _SCHEMA, "files": rows}) + "\n")

    def _state(self, name: str) -> tuple[int, int] | tuple[None, None]:
        try:
            found = os.lstat(self._folder / name)
        except OSError:
            return None, None
        return found.st_size, found.st_mtime_ns
