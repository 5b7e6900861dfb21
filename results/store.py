"""The store of a run: an append-only log of records, its lock, its removal."""

import fcntl
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, TypeVar

from bench.errors import SpecError, quoted
from im2rec_tools import files
from im2rec_tools.errors import DataError
from results import record as records
from results.errors import StoreError, store_errors
from results.record import Identity, Record
from results.run_folder import ASKED, ENVIRONMENT, LOCK, LOGS, RECORDS, REPORT, TORN, is_run

_LOG = logging.getLogger(__name__)
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
_SUFFIXES = {".json", ".jsonl", ".toml", ".md", ".csv", TORN, ".part"}
# While one of these is there, it is a run and can be removed; an empty folder can be, too.
_LAST = (ASKED, RECORDS, LOCK)
_MEND = "make room or choose another folder with --run PATH. Nothing recorded before is lost"


@dataclass(frozen=True, kw_only=True)
class UnreadableLine:
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


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, of which a reader sees the old one or the new; StoreError where not."""
    try:
        with files.atomic_file(path) as file:
            yield file
    except DataError as error:
        raise StoreError(
            f"{error}; make room or choose another place. Nothing recorded before is lost"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole; see `whole`."""
    with atomic_file(path) as file:
        file.write(text.encode(errors="backslashreplace"))


def set_environment(folder: Path, **facts: object) -> None:
    """Puts facts into the environment of a run, all or none of them."""
    try:
        known: dict[str, Any] = read_json(folder, ENVIRONMENT, {})
    except StoreError as error:
        raise StoreError(f"{error}; move it elsewhere and run the same command again") from error
    write_text(folder / ENVIRONMENT, json.dumps(known | facts, indent=1) + "\n")


class Store:
    """The run folder of one sweep, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Opens or makes the folder for writing; StoreError where that cannot be."""
        check_name(folder)
        self.folder = folder
        self._log = folder / RECORDS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = lock(folder / LOCK)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            _set_torn_aside(self._log)
        except OSError as error:
            self._lock.close()
            raise self._unwritable(error) from error
        except StoreError:
            self._lock.close()
            raise

    def _unwritable(self, error: OSError) -> StoreError:
        return StoreError(f"{self.folder}: cannot be written ({error.strerror}); {_MEND}")

    def append(self, record: Record) -> None:
        """Adds a record and returns once it is on disk."""
        line = memoryview((records.emit(record) + "\n").encode())
        try:
            is_new = not self._log.exists()
            with self._log.open("ab", buffering=0) as file:
                size = file.tell()
                try:
                    while line:  # a disk that is nearly full takes a part
                        line = line[file.write(line) :]
                    os.fsync(file.fileno())
                except OSError:
                    with suppress(OSError):
                        file.truncate(size)
                    raise
            if is_new:
                files.flush_folder(self.folder)
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, name: str, text: str) -> None:
        """Replaces the file `name` of the run folder."""
        write_text(self.folder / name, text)

    def done(self) -> set[Identity]:
        """What has been measured; points that failed run again."""
        return set(self.elapsed_seconds())

    def elapsed_seconds(self) -> dict[Identity, float]:
        """How long each finished repeat took; repeats that failed are not finished."""
        good = (record for record in _good(self.folder) if record.status == "ok")
        return {record.identity: record.elapsed_seconds for record in good}

    def close(self) -> None:
        """Lets another process have the folder."""
        self._lock.close()


def lock(path: Path) -> IO[str]:
    """The lock file, locked by this process and naming it; StoreError where another has it."""
    lock = open(path, "a+", encoding="utf-8", opener=_unlinked)  # noqa: SIM115 - an opener
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


def writing_process(folder: Path) -> str:
    """The process that writes to a run folder now; empty where none does."""
    try:
        with (folder / LOCK).open(encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read().strip() or "unknown"
    except OSError:
        pass
    return ""


def _set_torn_aside(log: Path) -> None:
    """Moves a last line that was cut off to NAME.torn, with a warning."""
    if not is_present(log):
        return
    with log.open("rb+") as file:
        begin = _last_line(file)
        file.seek(begin)
        line = file.read()
        if not line:
            return
        if _is_whole(line):  # only its end of line is missing
            file.write(b"\n")
            files.flush(file)
            return
        with open(f"{log}{TORN}", "ab", opener=_unlinked) as torn:
            torn.write(line + b"\n")
            files.flush(torn)
        file.truncate(begin)
        files.flush(file)
    _LOG.warning(
        "%s: its last line was cut off; moved its %d bytes to %s%s", log, len(line), log.name, TORN
    )


def _last_line(file: IO[bytes]) -> int:
    """Where the last line begins; the end of the file where that line is ended."""
    at = file.seek(0, os.SEEK_END)
    while at > 0:
        begin = max(0, at - BUFFER)
        file.seek(begin)
        end = file.read(at - begin).rfind(b"\n")
        if end >= 0:
            return begin + end + 1
        at = begin
    return 0


def _is_whole(line: bytes) -> bool:
    """Whether a line holds all of a record, even of one that this version does not read."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _unlinked(path: str, flags: int) -> int:
    """Opens a file as `open` does, but not where its name is a link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def read_records(folder: Path) -> list[Record]:
    """The records of a run folder, oldest first, without lines that were torn.

    Raises StoreError where there are none to read or they are of a newer schema.
    """
    return list(_good(folder))


def _good(folder: Path) -> Iterator[Record]:
    for _, one in record_lines(record_log(folder)):
        if isinstance(one, Record):
            yield one
        elif not one.torn:
            raise StoreError(str(one))


def check_name(folder: Path) -> None:
    """Raises StoreError where a folder's name begins with a dot: it is part of a run, or none."""
    if folder.name.startswith("."):
        raise StoreError(
            f"{folder}: expected a name that does not begin with '.', which parts of runs have. "
            f"Choose another name; what was left over can be removed with rm -r"
        )


def record_log(folder: Path) -> Path:
    """Where the records of a run folder are; StoreError where there is no such folder."""
    check_name(folder)
    try:
        there = folder.is_dir()
    except OSError as error:  # such as a name that is too long
        raise StoreError(f"{folder}: no such run folder ({error.strerror})") from error
    if not there:
        raise StoreError(f"{folder}: no such run folder; 'fab bench.sweep' makes one")
    return folder / RECORDS


def is_present(path: Path) -> bool:
    """Whether a run has this file; StoreError for a named pipe or device, which could hang us."""
    if path.exists() and not path.is_file():
        raise StoreError(f"{path}: expected a file, got something else. Remove it.")
    return path.exists()


def record_lines(log: Path) -> Iterator[tuple[int, Record | UnreadableLine]]:
    """The records of a log as they are read, with their lines, and what is none.

    Raises StoreError where it cannot be read.
    """
    return parsed_lines(log, records.parse)


def parsed_lines(
    log: Path, parse: Callable[[bytes], Kind | None], begin: int = 0, end: int | None = None
) -> Iterator[tuple[int, Kind | UnreadableLine]]:
    """As `each`, with what `parse` makes of a line: None of one that is torn.

    Of a part of the log, bytes from `begin` to before `end`; a line has to begin at each, and
    lines are counted from `begin`.
    """
    with store_errors(log, "read"):
        if not is_present(log):
            return
        with log.open("rb", buffering=BUFFER) as file:
            file.seek(begin)
            lines = file if end is None else BytesIO(file.read(end - begin))
            for number, line in enumerate(lines, 1):
                if line.isspace():
                    continue
                try:
                    record = parse(line)
                except UNREADABLE as error:
                    yield number, UnreadableLine(log=log, line=number, reason=str(error))
                    continue
                if record is not None:
                    yield number, record
                    continue
                found = _BEGAN.search(line)
                began = (found[1].decode(), int(found[2])) if found else None
                yield (
                    number,
                    UnreadableLine(log=log, line=number, reason=_CUT, torn=True, began=began),
                )


def read_json(folder: Path, name: str, default: Kind) -> Kind:
    """A JSON file of the run folder, of the kind of `default`, which stands for a missing file."""
    path = folder / name
    if not is_present(path):
        return default
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(data, type(default)):
        raise StoreError(f"{path}: expected a JSON {type(default).__name__}, got {quoted(data)}")
    return data


def check_removable(folder: Path) -> None:
    """Raises StoreError unless the folder is a run, and holds nothing else."""
    if ".." in folder.parts or not folder.name:
        raise StoreError(f"{folder}: expected the name of a run, or a path to one without '..'")
    if folder.is_symlink():
        raise StoreError(f"{folder}: is a link to {folder.resolve()}; name the run itself")
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such run; 'fab results.list' names those there are")
    check_name(folder)
    # Where its removal was ended, its lock alone may be left.
    gone = all(path.name == LOCK for path in folder.iterdir())
    if not is_run(folder) and not gone:
        raise StoreError(
            f"{folder}: is no run: it has neither {RECORDS} nor {ASKED}; nothing is removed"
        )
    strangers = sorted(path.name for path in folder.iterdir() if not _is_ours(path))
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise StoreError(
            f"{folder}: holds {strangers[0]!r}{more}, which no run has; move that elsewhere first"
        )


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return True  # of a link only the link is removed
    if path.is_dir():
        return path.name in {LOGS, REPORT}
    return path.name == LOCK or path.suffix in _SUFFIXES


def remove(folder: Path) -> None:
    """Removes a run; links in it are removed, and not what they lead to.

    Raises StoreError where it is no run, a sweep is writing there or it cannot be removed.
    """
    check_removable(folder)
    with store_errors(folder, "removed"), closing(lock(folder / LOCK)):
        rest = [path for path in folder.iterdir() if path.name not in _LAST]
        for path in (*rest, *(folder / name for name in _LAST)):
            files.remove(path)
        folder.rmdir()
