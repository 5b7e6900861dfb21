"""Store: one folder a run, whose log of records only grows."""

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, TypeVar

from bench.errors import SpecError
from im2rec_tools import files
from im2rec_tools.errors import DataError
from results import record as records
from results.errors import StoreError
from results.record import Identity, Record

Kind = TypeVar("Kind")
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    KeyError,
    RecursionError,
    SpecError,
    TypeError,
    ValueError,
)
_CUT = "not whole, as where writing was cut off; the sweep's command measures that point again"
_BEGAN = re.compile(rb'"key": ?"(\w+)", ?"repeat": ?(\d{1,9})\b')
# A record of many ranks is a line of megabytes; this was the quickest size to read lines with.
BUFFER = 1 << 18
_MEND = "make room or choose another folder with --run PATH. Nothing recorded before is lost"


@dataclass(frozen=True, kw_only=True)
class Unread:
    """A line of a log that holds no record that this version reads, or not all of one (torn).

    began    key and repeat of the record that a torn line begins with, None where it has none
    """

    log: Path
    line: int
    reason: str
    torn: bool = False
    began: tuple[str, int] | None = None

    def __str__(self) -> str:
        """Where and why."""
        what = "" if self.torn else "not a record this version reads: "
        return f"{self.log}:{self.line}: {what}{self.reason}"


def write_whole(path: Path, text: str) -> None:
    """Writes a file whole, so that a reader sees the old one or the new; StoreError where not."""
    try:
        files.write_whole(path, text)
    except DataError as error:
        raise StoreError(
            f"{error}; make room or choose another place. Nothing recorded before is lost"
        ) from error


def remember(folder: Path, name: str, value: object) -> None:
    """Puts a fact into the environment of a run that is measured."""
    known: dict[str, Any] = read_json(folder, "environment.json", {})
    write_whole(folder / "environment.json", json.dumps(known | {name: value}, indent=1) + "\n")


class Store:
    """The run folder of one sweep, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Opens or makes the folder for writing; StoreError where that cannot be."""
        self.folder = folder
        self._log = folder / "records.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = held(folder / ".lock")
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            _end_torn_line(self._log)
        except OSError as error:
            self._lock.close()
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(f"{self.folder}: cannot be written ({error.strerror}); {_MEND}")

    def append(self, record: Record) -> None:
        """Adds a record and returns once it is on disk."""
        try:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(records.emit(record) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, name: str, text: str) -> None:
        """Replaces the file `name` of the run folder."""
        write_whole(self.folder / name, text)

    def done(self) -> set[Identity]:
        """What has been measured; points that failed run again."""
        return {record.identity for record in _good(self.folder) if record.status == "ok"}

    def close(self) -> None:
        """Lets another process have the folder."""
        self._lock.close()


def held(path: Path) -> IO[str]:
    """The lock file, locked by this process and naming it; StoreError where another has it."""
    lock = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        with lock:
            lock.seek(0)
            holder = lock.read().strip()
        raise StoreError(
            f"{path.parent}: another sweep (process {holder}) is writing here; wait for it or "
            f"choose another --run"
        ) from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def writer(folder: Path) -> str:
    """The process that writes to a run folder now; empty where none does."""
    try:
        with (folder / ".lock").open(encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read().strip() or "unknown"
    except OSError:
        pass
    return ""


def _end_torn_line(log: Path) -> None:
    """Ends a last line that was cut off, so that the next record begins on a line of its own."""
    if not log.exists():
        return
    with log.open("rb+") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


def read(folder: Path) -> list[Record]:
    """The records of a run folder, oldest first, without lines that were torn.

    Raises StoreError where there are none to read or they are of a newer schema.
    """
    return list(_good(folder))


def _good(folder: Path) -> Iterator[Record]:
    for _, one in each(log_of(folder)):
        if isinstance(one, Record):
            yield one
        elif not one.torn:
            raise StoreError(str(one))


def log_of(folder: Path) -> Path:
    """Where the records of a run folder are; StoreError where there is no such folder."""
    try:
        there = folder.is_dir()
    except OSError as error:  # such as a name that is too long
        raise StoreError(f"{folder}: no such run folder ({error.strerror})") from error
    if not there:
        raise StoreError(f"{folder}: no such run folder; 'fab bench.sweep' makes one")
    return folder / "records.jsonl"


def each(log: Path) -> Iterator[tuple[int, Record | Unread]]:
    """The records of a log as they are read, with their lines, and what is none.

    Raises StoreError where it cannot be read.
    """
    return lines_of(log, records.parse)


def lines_of(
    log: Path, parse: Callable[[bytes], Kind | None], begin: int = 0, end: int | None = None
) -> Iterator[tuple[int, Kind | Unread]]:
    """As `each`, with what `parse` makes of a line: None of one that is torn.

    Of a part of the log, bytes from `begin` to before `end`; a line has to begin at each, and
    lines are counted from `begin`.
    """
    try:
        if not log.exists():
            return
        with log.open("rb", buffering=BUFFER) as file:
            file.seek(begin)
            lines = file if end is None else BytesIO(file.read(end - begin))
            for number, line in enumerate(lines, 1):
                try:
                    record = None if line.isspace() else parse(line)
                except UNREADABLE as error:
                    yield number, Unread(log=log, line=number, reason=str(error))
                else:
                    if record is not None:
                        yield number, record
                    elif not line.isspace():
                        yield number, _torn(log, number, line)
    except OSError as error:
        raise StoreError(f"{log}: cannot be read ({error.strerror})") from error


def _torn(log: Path, number: int, line: bytes) -> Unread:
    found = _BEGAN.search(line)
    began = (found[1].decode(), int(found[2])) if found else None
    return Unread(log=log, line=number, reason=_CUT, torn=True, began=began)


def read_json(folder: Path, name: str, default: Kind) -> Kind:
    """A JSON file of the run folder, of the kind of `default`, which stands for a missing file."""
    path = folder / name
    if not path.exists():
        return default
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(data, type(default)):
        raise StoreError(f"{path}: expected a JSON {type(default).__name__}, got {data!r:.40}")
    return data
