"""Files that are fetched piece by piece, and resumed after an interruption."""

import hashlib
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from google_crc32c import extend

from im2rec_tools.files import create, flush_folder, part_of
from im2rec_tools.formats.crc32c import join

PIECE = 8 << 20
_READ = 1 << 20
_SCHEMA = 1


class PartialFile:
    """A file until it is complete: .NAME.part, and a log of its pieces.

    The log, .NAME.part.log, names the content by size and validator. Pieces of another content
    are fetched again. Every piece has its CRC-32C in the log, which is checked before it counts
    as finished.
    """

    def __init__(self, path: Path, size: int, validator: str, piece: int = PIECE) -> None:
        """Open the file and read which pieces it has. Raises OSError."""
        self.path, self.size, self.piece = path, size, piece
        self.resumable = bool(validator)
        self._part, self._log = part_of(path), log_of(path)
        self._crcs: dict[int, int] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        header = {"schema": _SCHEMA, "size": size, "validator": validator, "piece": piece}
        lines = _logged(self._log)
        if not validator or not lines or lines[0] != header or not _is_plain(self._part):
            self._descriptor = _created(self._part)
            self._lines = os.fdopen(_created(self._log), "wb", buffering=0)
            self._lines.write(_line(header))
            return
        self._descriptor = os.open(self._part, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._lines = os.fdopen(_reopened(self._log), "ab", buffering=0)
        self._lines.write(b"\n")  # ends a torn line
        for one in lines[1:]:
            self._check(one)

    @property
    def finished_bytes(self) -> int:
        """Bytes of the finished pieces."""
        return sum(self._end(start) - start for start in self._crcs)

    @property
    def missing(self) -> list[tuple[int, int]]:
        """Start and end of each piece that is not finished."""
        starts = range(0, self.size, self.piece)
        return [(start, self._end(start)) for start in starts if start not in self._crcs]

    def write(self, data: bytes, at: int) -> None:
        """Write bytes of a piece. Raises OSError."""
        view = memoryview(data)
        while view:
            count = os.pwrite(self._descriptor, view, at)
            view, at = view[count:], at + count

    def finish(self, start: int, crc: int) -> None:
        """Log a piece, all of whose bytes are written, with its CRC-32C. Raises OSError."""
        self._lines.write(_line({"at": start, "crc32c": f"{crc:08x}"}))
        self._crcs[start] = crc

    def end(self, size: int, crc: int) -> None:
        """Set the size, which was unknown, of a file whose bytes are all written."""
        self.size = self.piece = size
        self._crcs = {0: crc} if size else {}

    def digest(self, algorithm: str) -> str:
        """Return a digest of the whole file in hex digits.

        For 'crc32c' the file is not read again.
        """
        if algorithm == "crc32c":
            return f"{self._crc32c():08x}"
        with self._part.open("rb") as file:
            return hashlib.file_digest(file, algorithm).hexdigest()

    def _crc32c(self) -> int:
        crc = 0
        for start in range(0, self.size, max(1, self.piece)):
            crc = join(crc, self._crcs[start], self._end(start) - start)
        return crc

    def flush(self) -> os.stat_result:
        """Give the file its size, on disk; return its state. Raises OSError."""
        os.ftruncate(self._descriptor, self.size)
        os.fsync(self._descriptor)
        return os.fstat(self._descriptor)

    def publish(self) -> None:
        """Give the flushed file its name, on disk. Raises OSError."""
        self.close()
        self._part.replace(self.path)
        flush_folder(self.path.parent)
        self._log.unlink(missing_ok=True)

    def leave(self) -> None:
        """Close the file; its pieces stay if a later run can continue it."""
        if self.resumable:
            self.close()
        else:
            self.discard()

    def close(self) -> None:
        """Close the file; its pieces stay."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            with suppress(OSError):
                self._lines.close()

    def discard(self) -> None:
        """Remove the file and its log."""
        self.close()
        self._part.unlink(missing_ok=True)
        self._log.unlink(missing_ok=True)

    def _end(self, start: int) -> int:
        return min(self.size, start + self.piece)

    def _check(self, logged: dict[str, Any]) -> None:
        """Count a logged piece as finished if its bytes have its CRC."""
        start, crc = logged.get("at"), 0
        if not isinstance(start, int) or not 0 <= start < self.size or start % self.piece:
            return
        at, end = start, self._end(start)
        while at < end and (data := os.pread(self._descriptor, min(_READ, end - at), at)):
            crc, at = extend(crc, data), at + len(data)
        if at == end and f"{crc:08x}" == logged.get("crc32c"):
            self._crcs[start] = crc


def log_of(path: Path) -> Path:
    """Return the log of a file that is being fetched."""
    return path.with_name(f"{part_of(path).name}.log")


def _created(path: Path) -> int:
    with create(path) as made:  # removes a link or file in its place
        made.flush()
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)


def _reopened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)


def _is_plain(path: Path) -> bool:
    """Return whether a path is a regular file of this user."""
    with suppress(OSError):
        found = path.lstat()
        return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _logged(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a log; none if it is not a regular file of this user."""
    if not _is_plain(path):
        return []
    found = []
    for line in path.read_bytes().split(b"\n"):
        with suppress(ValueError, RecursionError):
            values = json.loads(line)
            if isinstance(values, dict):
                found.append(values)
    return found
