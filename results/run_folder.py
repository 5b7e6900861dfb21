"""Where a run keeps what its processes said: logs/TRIAL/REPEAT/NAME.events.jsonl, or that .gz."""

import contextlib
import errno
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from io import BytesIO, FileIO
from itertools import chain
from pathlib import Path
from typing import IO, Any

import msgspec

from bench.errors import quoted
from bench.secrets import command_line, masked, masked_word
from bench.trial import Trial
from im2rec_tools import files
from results.errors import StoreError
from results.record import Identity, identity_of, stored_trial
from results.store import TORN, check_name, lock, read_json

_FOLDERS = {"logs", "report"}
_FILES = {".lock"}
_SUFFIXES = {".json", ".jsonl", ".toml", ".md", ".csv", TORN, ".part"}
# While one of these is there, it is a run and can be removed; an empty folder can be, too.
_LAST = ("asked.json", "records.jsonl", ".lock")


def check_removable(folder: Path) -> None:
    """Raises StoreError unless the folder is a run, and holds nothing else."""
    if ".." in folder.parts or not folder.name:
        raise StoreError(f"{folder}: expected the name of a run, or a path to one without '..'")
    if folder.is_symlink():
        raise StoreError(f"{folder}: is a link to {folder.resolve()}; name the run itself")
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such run; 'fab results.list' names those there are")
    check_name(folder)
    if not is_run(folder) and not _is_nearly_gone(folder):
        raise StoreError(
            f"{folder}: is no run: it has neither records.jsonl nor asked.json; nothing is removed"
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
        return path.name in _FOLDERS
    return path.name in _FILES or path.suffix in _SUFFIXES


def _is_nearly_gone(folder: Path) -> bool:
    """Whether nothing is left of what was there, as where its removal was ended."""
    return all(path.name == ".lock" for path in folder.iterdir())


def remove(folder: Path) -> None:
    """Removes a run; links in it are removed, and not what they lead to.

    Raises StoreError where it is no run, a sweep is writing there or it cannot be removed.
    """
    check_removable(folder)
    try:
        with closing(lock(folder / ".lock")):
            rest = [path for path in folder.iterdir() if path.name not in _LAST]
            for path in (*rest, *(folder / name for name in _LAST)):
                files.remove(path)
            folder.rmdir()
    except OSError as error:
        raise StoreError(f"{folder}: cannot be removed ({error.strerror})") from error


NAME = "environment.json"
_TEXTS = ("description", "date", "commit", "system", "processor", "source", "imported")
_HIDDEN = frozenset({"description", "points", "repeats", "hosts", "order"})


def read_environment(folder: Path) -> dict[str, Any]:
    """What environment.json says, nothing where there is none.

    Raises StoreError naming the fact where it is not what is written there.
    """
    found: dict[str, Any] = read_json(folder, NAME, {})
    for name in _TEXTS:
        _check(folder, name, found.get(name), str)
    if not _of_texts(found.get("command", [])):
        raise _odd(folder, "command", found["command"])
    hosts = found.get("hosts")
    _check(folder, "hosts", hosts, dict)
    for host, facts in (hosts or {}).items():
        if not isinstance(facts, dict):
            raise _odd(folder, f"hosts: {quoted(host)}", facts)
        for fact, fits in _OF_HOST.items():
            if fact in facts and not fits(facts[fact]):
                raise _odd(folder, f"hosts: {quoted(host)}: {fact}", facts[fact])
        _mask(facts)
    _mask(found)
    if "command" in found:
        found["command"] = list(map(masked_word, found["command"]))
    return found


def _mask(facts: dict[str, Any]) -> None:
    """Masks secrets among the variables of a machine, which earlier versions recorded."""
    variables = facts.get("variables")
    if isinstance(variables, dict):
        facts["variables"] = masked(variables)


def shown_environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What a report shows of it besides the hosts; the command as one line."""
    found = {name: value for name, value in environment.items() if name not in _HIDDEN}
    return found | ({"command": command_line(found["command"])} if found.get("command") else {})


def _check(folder: Path, name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise _odd(folder, name, value)


def _odd(folder: Path, name: str, value: object) -> StoreError:
    return StoreError(f"{folder / NAME}: {name} is not as it is written: {quoted(value)}")


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _of_dicts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and -1e15 < value < 1e15


# What tables count or add up; of all else they print what is there.
_OF_HOST: dict[str, Callable[[object], bool]] = {
    "cores": _is_list,
    "gpus": _of_dicts,
    "memory_mib": _is_number,
}

EVENTS = ".events.jsonl"
# Which host each process was on.
HOSTS = "hosts.json"
# Which record the folder is of.
RECORDED = "recorded.json"
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


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's: it holds records, or what was asked for.

    A folder whose name begins with a dot is part of a run: unpacking it was ended.
    """
    if folder.name.startswith("."):
        return False
    with suppress(OSError):  # one that may not be looked into
        return any((folder / name).is_file() for name in ("records.jsonl", "asked.json"))
    return False


def asked_identities(folder: Path) -> list[Identity]:
    """What the last sweep in this folder asked for; empty where it did not leave that."""
    try:
        asked: list[Any] = read_json(folder, "asked.json", [])
        return [identity_of(one) for one in asked]
    except ValueError as error:
        raise StoreError(f"{folder / 'asked.json'}: not a list of points: {error}") from error


def asked_trials(folder: Path) -> list[Trial]:
    """The trials of what the last sweep asked for; earlier versions did not leave them."""
    asked: list[Any] = read_json(folder, "asked.json", [])
    try:
        found = [one["trial"] for one in asked if isinstance(one, dict) and "trial" in one]
        return [stored_trial(one) for one in found]
    except msgspec.ValidationError as error:
        raise StoreError(f"{folder / 'asked.json'}: not a list of points: {error}") from error
