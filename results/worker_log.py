"""Logs of a job: files, events of a worker, and the rank built from them."""

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

from bench.engines.event_decoder import decoded
from bench.events import REPORTED, Event
from results.record import WAITS, Rank, Validation
from results.run_folder import EVENTS, HOSTS, RECORDED

Values = dict[str, Any]


# The numbers of a window and of an epoch that a record needs.
_WINDOW = ("seconds", "end", "cpu_seconds", "images", "loss", "own_seconds", *WAITS)
_EPOCH = ("correct", "total", "epoch", "seconds")


@dataclass(kw_only=True)
class WorkerLog:
    """The events of one worker so far; `rank` is None until the rendezvous is done.

    measured   whether its last window is over
    """

    rank: int | None = None
    facts: Values = field(default_factory=dict)
    windows: list[Values] = field(default_factory=list)
    epochs: list[Values] = field(default_factory=list)
    done: Values | None = None
    measured: bool = False

    def take(self, event: Event) -> None:
        """Add the parts of an event that a record keeps."""
        if event.kind == "ready":
            self.rank, self.facts = event.rank, event.values
        elif event.kind == "window":
            self.windows.append(_only(_WINDOW, event.values))
        elif event.kind == "epoch":
            self.epochs.append(_only(_EPOCH, event.values))
        elif event.kind == "measured":
            self.measured = True
        elif event.kind == "done":
            self.done = event.values


def parse_worker_log(lines: Iterable[str]) -> WorkerLog:
    """Parse the events in these lines; skip torn, invalid and foreign lines."""
    log = WorkerLog()
    for line in lines:
        with contextlib.suppress(ValueError):  # an invalid event has failed its job
            if event := decoded(line):
                log.take(event)
    return log


def _only(names: Sequence[str], values: Values) -> Values:
    """Return the values of these names."""
    return {name: values[name] for name in names if name in values}


def rank_of(one: WorkerLog, host: str, process: str) -> Rank:
    """Build the rank of a record from a worker's events; its rendezvous must be done."""
    assert one.rank is not None
    windows, done = one.windows, dict(one.done or {})
    # A program prints neither its CPU time nor a loss for each window.
    own_windows = () if one.facts.get(REPORTED) else windows
    probes = [window["own_seconds"] for window in windows if "own_seconds" in window]
    own = (*probes, *done.pop("own_seconds", ()))
    waits = {
        name: tuple(window[name] for window in windows)
        for name in WAITS
        if all(name in window for window in windows)
    }
    return Rank(
        rank=one.rank,
        host=host,
        process=process,
        seconds=tuple(window["seconds"] for window in windows),
        ends=tuple(window["end"] for window in windows),
        cpu_seconds=tuple(window.get("cpu_seconds", 0.0) for window in own_windows),
        images=tuple(window["images"] for window in windows),
        losses=tuple(window.get("loss", 0.0) for window in own_windows),
        own_seconds=own,
        facts=one.facts | done,
        **waits,
    )


def accuracy_of(epochs: Sequence[Sequence[Mapping[str, Any]]]) -> float | None:
    """Return the last validation accuracy over all ranks; None if a rank has none."""
    last = [rank[-1] for rank in epochs if rank]
    if not last or len(last) < len(epochs):
        return None
    total = sum(int(one["total"]) for one in last)
    return sum(int(one["correct"]) for one in last) / total if total else None


def validations_of(epochs: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[Validation, ...]:
    """Return the validations that all ranks have done; none from older events."""
    return tuple(
        Validation(
            epochs=1 + max(int(one["epoch"]) for one in ranks),
            accuracy=sum(int(one["correct"]) for one in ranks) / total,
            seconds=max(float(one["seconds"]) for one in ranks),
        )
        for ranks in zip(*epochs, strict=False)
        if (total := sum(int(one["total"]) for one in ranks))
        and all({"epoch", "seconds"} <= one.keys() for one in ranks)
    )


# Limit of one process's log before compression; a window takes about 200 bytes.
MOST_BYTES = 64 << 20
# Limit of a decompressed file: larger than any log, a thousandth of a decompression bomb.
MOST_UNPACKED = 1 << 30
_MOST_LINE = 8 << 20
CHUNK_BYTES = 1 << 20
# Limit of hosts.json: 20,000 processes.
_MOST_NAMES = 16 << 20
_PROCESS = re.compile(r"(?:worker|server|scheduler)(?:-[0-9]{1,9})?", re.ASCII)


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks, decompressed if it is a .gz.

    Raises OSError if it decompresses to more than MOST_UNPACKED bytes, gzip.BadGzipFile if it is
    damaged.
    """
    packed, read = path.suffix == ".gz", 0
    if path.exists() and not path.is_file():  # a named pipe would block forever
        raise OSError(errno.EINVAL, "not a regular file")
    with gzip.open(path) if packed else path.open("rb", buffering=0) as file:
        while chunk := _chunk(file):
            read += len(chunk)
            if packed and read > MOST_UNPACKED:
                raise OSError(errno.EFBIG, f"decompresses to more than {MOST_UNPACKED} bytes")
            yield chunk


def _chunk(file: IO[bytes] | gzip.GzipFile | FileIO) -> bytes:
    try:
        return file.read(CHUNK_BYTES)
    except (EOFError, zlib.error) as error:
        raise gzip.BadGzipFile(str(error)) from error


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, decompressed if it is a .gz.

    Raises the errors of `read_chunks`, and OSError for a line longer than any output or event.
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
    """Return the start time of the record of a log folder; '' if unknown."""
    return _read(folder / RECORDED).get("started", "")


def event_files(folder: Path) -> dict[str, Path]:
    """Return the event file of each process in a log folder, by process name.

    Skips symbolic links, which no digest covers.
    """
    files = [*folder.glob(f"*{EVENTS}"), *folder.glob(f"*{EVENTS}.gz")]
    found = sorted(path for path in files if not path.is_symlink())
    return {path.name.partition(EVENTS)[0]: path for path in found}


def process_hosts(folder: Path) -> dict[str, str]:
    """Return the host of each process of a log folder, by process name.

    Skips names that no process can have, because they become file names.
    """
    return {name: host for name, host in _read(folder / HOSTS).items() if _PROCESS.fullmatch(name)}


def _read(path: Path) -> dict[str, str]:
    """Read a small JSON object of strings; empty if it is missing or invalid."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        known = path.is_file() and not path.is_symlink()
        if known and path.stat().st_size <= _MOST_NAMES:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    return {}
