"""Page-cache residency of files, and dropping them from it."""

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.errors import SpecError, error_line
from bench.notes import Note, NoteKind

# Files are mapped in parts of this size: mincore fills one byte per page.
MAPPED_BYTES = 1 << 30
# Other programs may read a page or two in that time.
_COLD_BELOW = 0.05


@dataclass(frozen=True, kw_only=True)
class Residency:
    """The size of some files, and their bytes in the page cache."""

    size: int
    cached: int


def residency(paths: Sequence[Path]) -> Residency | None:
    """Return which pages of these files are in memory (mincore), without reading them.

    None if another user owns a file: Linux reports residency only to owners and writers.
    """
    size = found = 0
    if not all(os.access(path, os.W_OK) or path.stat().st_uid == os.geteuid() for path in paths):
        return None
    for path in paths:
        with path.open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            for start in range(0, length, MAPPED_BYTES):
                found += _cached_bytes(file.fileno(), start, min(MAPPED_BYTES, length - start))
        size += length
    return Residency(size=size, cached=found)


def _cached_bytes(file: int, start: int, length: int) -> int:
    pages = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    # A private writable map, never written: ctypes gives the address of no other kind.
    with mmap.mmap(file, length, access=mmap.ACCESS_COPY, offset=start) as memory:
        address = (ctypes.c_char * length).from_buffer(memory)
        failed = libc.mincore(address, ctypes.c_size_t(length), pages)
        del address  # otherwise the map cannot be closed
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    resident = int((np.frombuffer(bytes(pages), np.uint8) & 1).sum())
    return min(length, resident * mmap.PAGESIZE)


def drop(paths: Sequence[Path]) -> None:
    """Drop the pages of these files from the page cache; needs only read permission."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())  # unwritten pages would stay
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def drop_and_check(data: str, paths: Sequence[Path]) -> Residency:
    """Drop files from the page cache and check.

    Raises SpecError if they stay or it is unknown.
    """
    drop(paths)
    left = residency(paths)
    if left is None:
        raise SpecError(
            error_line(
                "--cold",
                problem=f"another user owns {data}, so Linux does not report its page cache",
                fix="Measure as that user, or without --cold",
            )
        )
    if left.cached > _COLD_BELOW * left.size:
        percent = 100 * left.cached / left.size
        raise SpecError(
            error_line(
                "--cold",
                problem=(
                    f"{percent:.0f} % of {data} stay in memory (held by another program or by the "
                    "file system)"
                ),
                fix="Measure without --cold",
            )
        )
    return left


def describe(found: Residency | None) -> dict[str, int | None]:
    """Return the residency as facts for the worker's events."""
    if found is None:
        return {"data_bytes": None, "cached_bytes": None}
    return {"data_bytes": found.size, "cached_bytes": found.cached}


def notes(workers: Sequence[dict[str, Any]]) -> Iterator[Note]:
    """Yield a note on the page cache, from the facts of every worker."""
    if any("cached_bytes" not in one for one in workers):
        return
    if any(one["cached_bytes"] is None for one in workers):
        yield Note(NoteKind.PAGE_CACHE_UNKNOWN)
        return
    shares = [one["cached_bytes"] / one["data_bytes"] for one in workers]
    word = "partly warm"
    if min(shares) > 1 - _COLD_BELOW:
        word = "warm"
    elif max(shares) < _COLD_BELOW:
        word = "cold"
    size = max(one["data_bytes"] for one in workers) / 1e6
    ends = sorted({min(shares), max(shares)})
    yield Note(NoteKind.PAGE_CACHE, {"state": word, "cached": ends, "megabytes": size})
