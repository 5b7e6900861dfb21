"""Store of a run: its append-only log of records, its lock and its removal."""

import errno
import fcntl
import gc
import json
import logging
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import IO, Any, TypeVar

from bench.errors import SpecError, error_line, quoted
from im2rec_tools import files
from im2rec_tools.errors import DataError
from results import record as records
from results.errors import StoreError, store_errors
from results.record import Identity, Outcome, Record
from results.run_folder import ASKED, ENVIRONMENT, LOCK, LOGS, RECORDS, REPORT, TORN, is_run

_LOG = logging.getLogger(__name__)
Kind = TypeVar("Kind")
Result = TypeVar("Result")
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    KeyError,
    RecursionError,
    SpecError,
    TypeError,
    ValueError,
)
_TORN = "incomplete, as after an interrupted write. Rerun the sweep to measure this point again"
_BEGAN = re.compile(rb'"key": ?"(\w+)", ?"repeat": ?(\d{1,9})\b')
_TAIL_BYTES = 1 << 18
# Smaller logs are read faster by one process.
LARGE_BYTES = 64 << 20
PART_BYTES = 16 << 20
PIECE_BYTES = 1 << 17
_SPACES = b" \t\n\v\f\r"
_SUFFIXES = {".json", ".jsonl", ".toml", ".md", ".csv", TORN, ".part"}
# Removed last: a folder with one of these still counts as a run and can be removed.
_LAST = (ASKED, RECORDS, LOCK)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, kw_only=True)
class UnreadableLine:
    """A line of a log without a record that this version can read.

    torn     whether the line is incomplete, as after an interrupted write
    began    key and repeat of the record that a torn line starts with, or None
    """

    log: Path
    line: int
    reason: str
    torn: bool = False
    began: tuple[str, int] | None = None

    def __str__(self) -> str:
        """Place and reason: 'LOG:LINE: reason'."""
        kind = "" if self.torn else "unreadable record: "
        return f"{self.log}:{self.line}: {kind}{self.reason}"


@contextmanager
def atomic_file(path: Path, option: str = "") -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` once it is complete; StoreError on failure.

    The error names the option that chooses the folder, if any.
    """
    try:
        with files.atomic_file(path) as file:
            yield file
    except DataError as error:
        cause = error.__cause__
        full = isinstance(cause, OSError) and cause.errno in _FULL
        choose = "Free disk space, or choose" if full else "Choose"
        given = f" with {option}" if option else ". Existing records are kept"
        fix = f"{choose} another folder{given}"
        raise StoreError(error_line("", problem=str(error), fix=fix)) from error


def write_text(path: Path, text: str, option: str = "") -> None:
    """Write a text file atomically; see `atomic_file`."""
    with atomic_file(path, option) as file:
        file.write(text.encode(errors="backslashreplace"))


def set_environment(folder: Path, **facts: object) -> None:
    """Add facts to the environment of a run, all or none."""
    try:
        known: dict[str, Any] = read_json(folder, ENVIRONMENT, {})
    except StoreError as error:
        fix = "Move it elsewhere, then rerun the same command"
        raise StoreError(error_line("", problem=str(error), fix=fix)) from error
    write_text(folder / ENVIRONMENT, json.dumps(known | facts, indent=1) + "\n")


class Store:
    """The run folder of one sweep, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        """Open or create the folder for writing; StoreError if that fails."""
        check_name(folder)
        self.folder = folder
        self._log = folder / RECORDS
        self._again: set[Identity] = set()
        # How long each finished repeat took; None until the log is read, once.
        self._finished: dict[Identity, float] | None = None
        self._tries = Counter[Identity]()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"cannot be created ({error.strerror})"
            fix = "Choose another path with --run"
            raise StoreError(error_line(folder, problem=problem, fix=fix)) from error
        try:
            self._lock = lock(folder / LOCK, "choose another --run NAME")
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
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        again = "Free disk space and run the same command again"
        copied = "Copy the folder to a disk that you may write to, and continue it with --run PATH"
        problem = f"cannot be written ({error.strerror})"
        return StoreError(error_line(self.folder, problem=problem, fix=again if full else copied))

    def measure_again(self, names: Iterable[Identity]) -> None:
        """Let these repeats count as unfinished until a new record of each is appended."""
        self._again |= set(names)

    def append(self, record: Record) -> None:
        """Append a record; return once it is on disk."""
        line = memoryview((records.emit(record) + "\n").encode())
        try:
            is_new = not self._log.exists()
            with self._log.open("ab", buffering=0) as file:
                size = file.tell()
                try:
                    while line:  # a nearly full disk accepts only a part
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
        self._again.discard(record.identity)
        if self._finished is not None:
            self._count(self._finished, record)

    def write(self, name: str, text: str) -> None:
        """Replace the file `name` of the run folder."""
        write_text(self.folder / name, text)

    def done(self) -> set[Identity]:
        """Return the identities of finished repeats; failed ones are measured again."""
        return set(self.elapsed_seconds())

    def elapsed_seconds(self) -> dict[Identity, float]:
        """How long each finished repeat took.

        The newest try decides: if it failed, the repeat is not finished.
        """
        return {name: one for name, one in self._outcomes().items() if name not in self._again}

    def tries(self) -> Counter[Identity]:
        """Return the number of records of each repeat."""
        self._outcomes()
        return self._tries.copy()

    def _outcomes(self) -> dict[Identity, float]:
        """Return how long each finished repeat took, again or not; read the log once."""
        if self._finished is None:
            found: dict[Identity, float] = {}
            self._tries.clear()
            log = record_log(self.folder)
            for record in _readable(log_parts(log, _outcomes)):
                self._count(found, record)
            self._finished = found
        return self._finished

    def _count(self, finished: dict[Identity, float], record: Outcome | Record) -> None:
        """Let a newer try of a repeat decide whether it is finished."""
        self._tries[record.identity] += 1
        if record.status == "ok":
            finished[record.identity] = record.elapsed_seconds
        else:
            finished.pop(record.identity, None)

    def close(self) -> None:
        """Release the folder for other processes."""
        self._lock.close()


def lock(path: Path, instead: str = "") -> IO[str]:
    """Lock a file, write this process's id into it; StoreError if it is locked.

    `instead` is another way than to wait for its holder.
    """
    lock = open(path, "a+", encoding="utf-8", opener=_unlinked)  # noqa: SIM115 - an opener
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        with lock:
            lock.seek(0)
            holder = lock.read().strip()
        problem = f"another sweep (process {holder}) is writing to it"
        fix = how_to_end(holder, instead)
        raise StoreError(error_line(path.parent, problem=problem, fix=fix)) from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def how_to_end(process: str, instead: str = "") -> str:
    """Return the fix for a run that a sweep's process is writing to."""
    wait = f"Wait for it to end{', or ' * bool(instead)}{instead}"
    if not process.isdigit():
        return wait
    shown = f"'ps -fp {process}' shows it; 'kill -INT {process}' ends it and keeps finished work"
    return f"{wait}. {shown}"


def writing_process(folder: Path) -> str:
    """Return the id of the process that is writing to a run folder, or ''."""
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
    """Move an incomplete last line to NAME.torn, with a warning."""
    if not is_present(log):
        return
    with log.open("rb+") as file:
        begin = _last_line(file)
        file.seek(begin)
        line = file.read()
        if not line:
            return
        if _is_whole(line):  # only its newline is missing
            file.write(b"\n")
            files.flush(file)
            return
        with open(f"{log}{TORN}", "ab", opener=_unlinked) as torn:
            torn.write(line + b"\n")
            files.flush(torn)
        file.truncate(begin)
        files.flush(file)
    _LOG.warning(
        "%s: incomplete last line; moved its %d bytes to %s%s", log, len(line), log.name, TORN
    )


def _last_line(file: IO[bytes]) -> int:
    """Return the offset of an unterminated last line, or the size of the file."""
    at = file.seek(0, os.SEEK_END)
    while at > 0:
        begin = max(0, at - _TAIL_BYTES)
        file.seek(begin)
        end = file.read(at - begin).rfind(b"\n")
        if end >= 0:
            return begin + end + 1
        at = begin
    return 0


def _is_whole(line: bytes) -> bool:
    """Return whether a line is complete, even if this version cannot read it."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _unlinked(path: str, flags: int) -> int:
    """Open a file like `open`, but reject links."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def read_records(folder: Path) -> list[Record]:
    """Read the records of a run folder, oldest first, skipping torn lines.

    Raises StoreError if the folder or a record cannot be read, e.g. one of a newer schema.
    """
    return list(_readable(one for _, one in record_lines(record_log(folder))))


def _readable(found: Iterable[Kind | UnreadableLine]) -> Iterator[Kind]:
    """Yield what was read without torn lines; StoreError at another unreadable line."""
    for one in found:
        if not isinstance(one, UnreadableLine):
            yield one
        elif not one.torn:
            raise StoreError(str(one))


def check_name(folder: Path) -> None:
    """Raise StoreError if a folder's name begins with a dot, as partial runs do."""
    if folder.name.startswith("."):
        raise StoreError(
            error_line(
                folder,
                expected="a name that does not begin with '.' (names of partial runs do)",
                fix=f"Choose another name; remove a leftover with 'rm -r {folder}'",
            )
        )


def _no_run(folder: Path) -> StoreError:
    """Return the error for a missing run, with the run of a similar name beside it."""
    with suppress(OSError):
        names = [one.name for one in folder.parent.iterdir()]
        for name in get_close_matches(folder.name, names, n=1):
            fix = f"Did you mean {name!r}? 'fab results.list' lists the runs"
            return StoreError(error_line(folder, problem="no such run folder", fix=fix))
    fix = "List the runs with 'fab results.list'"
    return StoreError(error_line(folder, problem="no such run folder", fix=fix))


def record_log(folder: Path) -> Path:
    """Return the path of a run folder's records; StoreError if it is missing."""
    check_name(folder)
    try:
        there = folder.is_dir()
    except OSError as error:  # such as a name that is too long
        problem = f"no such run folder ({error.strerror})"
        raise StoreError(
            error_line(folder, problem=problem, fix="List the runs with 'fab results.list'")
        ) from error
    if not there:
        raise _no_run(folder)
    return folder / RECORDS


def is_present(path: Path) -> bool:
    """Return whether a file exists; StoreError for a pipe or device, which can block."""
    if path.exists() and not path.is_file():
        raise StoreError(error_line(path, expected="a file", got="something else", fix="Remove it"))
    return path.exists()


def record_lines(log: Path) -> Iterator[tuple[int, Record | UnreadableLine]]:
    """Yield the records and the unreadable lines of a log, with their line numbers.

    Raises StoreError if the log cannot be read.
    """
    return parsed_lines(log, records.parse)


def parsed_lines(
    log: Path,
    parse: Callable[[memoryview], Kind | None],
    begin: int = 0,
    end: int | None = None,
) -> Iterator[tuple[int, Kind | UnreadableLine]]:
    """Yield each line, parsed or as an UnreadableLine, with its number.

    `parse` returns None for a torn line. `begin` and `end` select a range of bytes; each must be
    the start of a line, and lines are counted from `begin`.
    """
    with store_errors(log, "read"):
        if not is_present(log):
            return
        with log.open("rb") as file:
            for number, line in enumerate(log_lines(file, begin, end), 1):
                if line[0] in _SPACES and bytes(line).isspace():
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
                    UnreadableLine(log=log, line=number, reason=_TORN, torn=True, began=began),
                )


def log_lines(file: IO[bytes], begin: int = 0, end: int | None = None) -> Iterator[memoryview]:
    """Yield the lines in a range of bytes as views, without copies."""
    end = os.fstat(file.fileno()).st_size if end is None else end
    length = PART_BYTES
    while begin < end:
        file.seek(begin)
        wanted = min(length, end - begin)
        data = file.read(wanted)
        is_last = len(data) < wanted or begin + wanted == end
        size = len(data) if is_last else data.rfind(b"\n") + 1
        view, start = memoryview(data), 0
        while start < size:
            stop = data.find(b"\n", start, size) + 1 or size
            yield view[start:stop]
            start = stop
        begin = end if len(data) < wanted else begin + size
        length = PART_BYTES if size else 2 * length


def log_parts(
    log: Path, read: Callable[[Path, int, int], list[Kind | UnreadableLine]]
) -> Iterator[Kind | UnreadableLine]:
    """Yield what `read` returns for a log.

    Processes call it for ranges of lines of a large one.
    """
    size = log.stat().st_size if log.exists() else 0
    if size < LARGE_BYTES:
        yield from read(log, 0, size)
        return
    begins = _part_begins(log, size)
    parts = on_all_cores(log, read, [log] * len(begins), begins, [*begins[1:], size])
    for begin, part in zip(begins, parts, strict=True):
        for one in part:
            if begin and isinstance(one, UnreadableLine):
                with log.open("rb") as file:  # count lines from the start of the log
                    lines = file.read(begin).count(b"\n")
                yield replace(one, line=one.line + lines)
            else:
                yield one


def _part_begins(log: Path, size: int) -> list[int]:
    """Return offsets of lines, about PART_BYTES apart."""
    found = [0]
    with log.open("rb", buffering=0) as file:
        while (offset := found[-1] + PART_BYTES) < size:
            while (piece := os.pread(file.fileno(), PIECE_BYTES, offset)) and b"\n" not in piece:
                offset += len(piece)
            found.append(offset + piece.find(b"\n") + 1)
    return [begin for begin in found if begin < size]


def _outcomes(log: Path, begin: int, end: int) -> list[Outcome | UnreadableLine]:
    return [one for _, one in parsed_lines(log, records.parse_outcome, begin, end)]


def on_all_cores(
    path: Path, function: Callable[..., Result], *arguments: Iterable[Any]
) -> Iterator[Result]:
    """Yield the results of calls in their order, computed by one process per core.

    `path` is what they read; StoreError names it if a process is killed.
    """
    with _processes(path, len(os.sched_getaffinity(0)), function.__module__) as pool:
        yield from pool.map(function, *arguments)


@contextmanager
def _processes(path: Path, number: int, module: str) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that read `path` by a module; StoreError if one is killed."""
    context = get_context("forkserver")
    context.set_forkserver_preload([module])  # loaded once for all processes
    try:
        with ProcessPoolExecutor(number, context, _prepare) as pool:
            yield pool
    except BrokenProcessPool as error:
        problem = "a process that read it was killed, probably because memory ran out"
        line = error_line(path, problem=problem, fix="Free memory, then run the same command again")
        raise StoreError(line) from error


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends the workers
    gc.disable()  # records hold no cycles, and millions of numbers
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)  # the parent was killed; the pool would wait for ever


def read_json(folder: Path, name: str, default: Kind) -> Kind:
    """Read a JSON file of the type of `default`; `default` if the file is missing."""
    path = folder / name
    if not is_present(path):
        return default
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(error_line(path, expected="JSON", problem=str(error))) from error
    if not isinstance(data, type(default)):
        wanted = f"a JSON {type(default).__name__}"
        raise StoreError(error_line(path, expected=wanted, got=quoted(data)))
    return data


def check_removable(folder: Path) -> None:
    """Raise StoreError unless the folder is a run and holds nothing else."""
    if ".." in folder.parts or not folder.name:
        expected = "the name of a run, or a path without '..'"
        fix = "List the runs with 'fab results.list'"
        raise StoreError(error_line(folder, expected=expected, fix=fix))
    if folder.is_symlink():
        problem = f"is a link to {folder.resolve()}"
        raise StoreError(error_line(folder, problem=problem, fix="Name the run itself"))
    if not folder.is_dir():
        raise _no_run(folder)
    check_name(folder)
    # An interrupted removal can leave only the lock.
    gone = all(path.name == LOCK for path in folder.iterdir())
    if not is_run(folder) and not gone:
        problem = "has neither; nothing was removed"
        raise StoreError(
            error_line(folder, expected=f"a run, with {RECORDS} or {ASKED}", problem=problem)
        )
    strangers = sorted(path.name for path in folder.iterdir() if not _is_ours(path))
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise StoreError(
            error_line(
                folder,
                expected="only files of a run",
                got=f"{strangers[0]!r}{more}",
                fix="Move other files elsewhere first",
            )
        )


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return True  # removal deletes the link, not its target
    if path.is_dir():
        return path.name in {LOGS, REPORT}
    return path.name == LOCK or path.suffix in _SUFFIXES


def remove(folder: Path) -> None:
    """Remove a run; delete links in it without following them.

    Raises StoreError if it is not a run, a sweep is writing to it or it cannot be removed.
    """
    check_removable(folder)
    with store_errors(folder, "removed"), closing(lock(folder / LOCK)):
        rest = [path for path in folder.iterdir() if path.name not in _LAST]
        for path in (*rest, *(folder / name for name in _LAST)):
            files.remove(path)
        folder.rmdir()
