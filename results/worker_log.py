"""Logs of a job: their files, a worker's events, and the rank they make."""

import contextlib
import errno
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO, FileIO
from itertools import chain
from pathlib import Path
from typing import IO, Any

import msgspec

from bench.event_decoder import decoded
from bench.events import Event
from results.record import Rank
from results.run_folder import EVENTS, HOSTS, RECORDED

Values = dict[str, Any]


# What of a window and of an epoch a record is made from, all of it numbers.
_WINDOW = ("seconds", "end", "cpu_seconds", "images", "loss", "own_seconds")
_EPOCH = ("correct", "total")


@dataclass(kw_only=True)
class WorkerLog:
    """The events of one worker so far; `rank` is None until its rendezvous with the others."""

    rank: int | None = None
    facts: Values = field(default_factory=dict)
    windows: list[Values] = field(default_factory=list)
    epochs: list[Values] = field(default_factory=list)
    done: Values | None = None

    def take(self, event: Event) -> None:
        """Adds an event, of which a record may keep something."""
        if event.kind == "ready":
            self.rank, self.facts = event.rank, event.values
        elif event.kind == "window":
            self.windows.append(_only(_WINDOW, event.values))
        elif event.kind == "epoch":
            self.epochs.append(_only(_EPOCH, event.values))
        elif event.kind == "done":
            self.done = event.values


def parse_worker_log(lines: Iterable[str]) -> WorkerLog:
    """The log of these lines; those that are torn, wrong or of another program are skipped."""
    log = WorkerLog()
    for line in lines:
        with contextlib.suppress(ValueError):  # a wrong one has failed its job
            if event := decoded(line):
                log.take(event)
    return log


def _only(names: Sequence[str], values: Values) -> Values:
    """These of the values."""
    return {name: values[name] for name in names if name in values}


def rank_of(one: WorkerLog, host: str, process: str) -> Rank:
    """The rank of a record that a worker's events make; it has met the others."""
    assert one.rank is not None
    windows = one.windows
    return Rank(
        rank=one.rank,
        host=host,
        process=process,
        seconds=tuple(window["seconds"] for window in windows),
        ends=tuple(window["end"] for window in windows),
        cpu_seconds=tuple(window.get("cpu_seconds", 0.0) for window in windows),
        images=tuple(window["images"] for window in windows),
        losses=tuple(window.get("loss", 0.0) for window in windows),
        own_seconds=tuple(w["own_seconds"] for w in windows if "own_seconds" in w),
        facts=one.facts | (one.done or {}),
    )


def accuracy_of(epochs: Sequence[Sequence[Mapping[str, Any]]]) -> float | None:
    """Of the last validation, over all ranks' shares; None where a rank has none."""
    last = [rank[-1] for rank in epochs if rank]
    if not last or len(last) < len(epochs):
        return None
    total = sum(int(one["total"]) for one in last)
    return sum(int(one["correct"]) for one in last) / total if total else None


# Of one process, before they are packed; a window is some 200 of them.
MOST_BYTES = 64 << 20
# Of a packed file; nobody's logs are as large, and a bomb is a thousandth of it.
MOST_UNPACKED = 1 << 30
_MOST_LINE = 8 << 20
CHUNK_BYTES = 1 << 20
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
            if packed and read > MOST_UNPACKED:
                raise OSError(errno.EFBIG, f"unpacks to more than {MOST_UNPACKED} bytes")
            yield chunk


def _chunk(file: IO[bytes] | gzip.GzipFile | FileIO) -> bytes:
    try:
        return file.read(CHUNK_BYTES)
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
