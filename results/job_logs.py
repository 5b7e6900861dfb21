"""Reading the logs and events of one job, with limits on what a file may unpack to."""

import contextlib
import errno
import gzip
import re
import zlib
from collections.abc import Iterator
from io import BytesIO, FileIO
from itertools import chain
from pathlib import Path
from typing import IO

import msgspec

from results.run_folder import EVENTS, HOSTS, RECORDED

# Of one process, before they are packed; a window is some 200 of them.
MOST_BYTES = 64 << 20
# Of a packed file; nobody's logs are as large, and a bomb is a thousandth of it.
_MOST_UNPACKED = 1 << 30
_MOST_LINE = 8 << 20
_CHUNK_BYTES = 1 << 20
# Of hosts.json, with 20,000 processes.
_MOST_NAMES = 16 << 20
_PROCESS = re.compile(r"(?:worker|server|scheduler)(?:-[0-9]{1,9})?", re.ASCII)


def read_chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file of a run, some at a time, unpacked where it is a .gz.

    OSError where it unpacks to more than any log of a run, gzip.BadGzipFile where it is damaged.
    """
    packed, read = path.suffix == ".gz", 0
    if path.exists() and not path.is_file():  # a named pipe would hold us for ever
        raise OSError(errno.EINVAL, "is no regular file")
    with gzip.open(path) if packed else path.open("rb", buffering=0) as file:
        while chunk := _chunk(file):
            read += len(chunk)
            if packed and read > _MOST_UNPACKED:
                raise OSError(errno.EFBIG, f"unpacks to more than {_MOST_UNPACKED} bytes")
            yield chunk


def _chunk(file: IO[bytes] | gzip.GzipFile | FileIO) -> bytes:
    try:
        return file.read(_CHUNK_BYTES)
    except (EOFError, zlib.error) as error:
        raise gzip.BadGzipFile(str(error)) from error


def read_lines(path: Path) -> Iterator[str]:
    """Its lines, unpacked where it is a .gz.

    As `chunks`, and OSError for a line that is longer than a process's output or event can be.
    """
    parts, length = list[bytes](), 0
    for piece in chain.from_iterable(map(BytesIO, read_chunks(path))):
        parts.append(piece)
        length += len(piece)
        if length > _MOST_LINE:
            raise OSError(errno.EFBIG, f"has a line of more than {_MOST_LINE} bytes")
        if piece.endswith(b"\n"):
            yield _text(parts)
            parts, length = [], 0
    if parts:
        yield _text(parts)


def _text(parts: list[bytes]) -> str:
    return b"".join(parts).decode("utf-8", "replace").rstrip("\n")


def recorded_start(folder: Path) -> str:
    """When the record began whose attempt left this folder; empty where that one left none."""
    return _read(folder / RECORDED).get("started", "")


def event_files(folder: Path) -> dict[str, Path]:
    """The events of each process in the folder of an attempt, by the process's name."""
    files = [*folder.glob(f"*{EVENTS}"), *folder.glob(f"*{EVENTS}.gz")]
    return {path.name.partition(EVENTS)[0]: path for path in sorted(files)}


def process_hosts(folder: Path) -> dict[str, str]:
    """The host of each process of the job whose logs the folder has, by the process's name.

    Names that are no process's are left out: files are found by them.
    """
    return {name: host for name, host in _read(folder / HOSTS).items() if _PROCESS.fullmatch(name)}


def _read(path: Path) -> dict[str, str]:
    """A small file of texts by name; empty where it is none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if path.is_file() and path.stat().st_size <= _MOST_NAMES:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    return {}
