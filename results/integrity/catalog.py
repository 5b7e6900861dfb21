"""The list of runs, one line each, without reading their windows.

What was found is kept in an index and counts as long as the run's files have the sizes and times
that they had.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from bench.errors import brief
from results.errors import StoreError, store_errors
from results.reader import RecordHeader, point_statuses, record_headers
from results.run import read_environment
from results.run_folder import ASKED, ENVIRONMENT, LOGS, MARKS, RECORDS, REPORT, is_run
from results.store import UNREADABLE, UnreadableLine, read_json, write_text

# 1: first. Another number: what was kept does not count.
_INDEX_SCHEMA = 1
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_STAMPED = (RECORDS, ASKED, ENVIRONMENT, LOGS, REPORT)


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """A run in a line.

    unread   lines of its log that hold no record which this version reads
    problem  why it, or the first of those lines, cannot be read; with none, little else is known
    """

    name: str
    folder: str
    date: str = ""
    commit: str = ""
    ok: _Count = 0
    failed: _Count = 0
    missing: _Count = 0
    hosts: _Count = 0
    networks: tuple[str, ...] = ()
    bytes: _Count = 0
    rehearsal: bool = False
    imported: bool = False
    unread: _Count = 0
    problem: str = ""


_NAMES = {field.name for field in fields(RunEntry)}


@dataclass(frozen=True, kw_only=True)
class _IndexEntry:
    """What the index keeps of a run: sizes and times of its files then, and its line."""

    stamp: list[list[int]]
    entry: RunEntry


def list_runs(folder: Path, index: Path, *, keep: bool = True) -> list[RunEntry]:
    """The runs of a folder, newest first; what is found is kept in `index`, where that can be."""
    with store_errors(folder, "read"):
        runs = sorted(path for path in folder.iterdir() if path.is_dir() and is_run(path))
    known = _known(index)
    found = {}
    for path in runs:
        stamp = [_stamp(path / name) for name in _STAMPED]
        kept = known.get(str(path.resolve()))
        if not (kept and kept.stamp == stamp and kept.entry.name == path.name):
            kept = _IndexEntry(stamp=stamp, entry=run_entry(path))
        found[str(path.resolve())] = kept
    if keep and any(known.get(name) != kept for name, kept in found.items()):
        told = {name: asdict(one) for name, one in (known | found).items()}
        with suppress(StoreError, ValueError):  # names that UTF-8 cannot hold
            write_text(index, json.dumps({"schema": _INDEX_SCHEMA, "runs": told}) + "\n")
    return sorted((one.entry for one in found.values()), key=lambda one: one.date, reverse=True)


def _known(index: Path) -> dict[str, _IndexEntry]:
    """What the index holds of runs that are still there, as far as it is as it was written."""
    try:
        data = read_json(index.parent, index.name, dict[str, Any]())
    except StoreError:
        return {}
    runs = data.get("runs") if data.get("schema") == _INDEX_SCHEMA else None
    found = {}
    for name, one in runs.items() if isinstance(runs, dict) else ():
        with suppress(OSError, OverflowError, ValueError):  # msgspec's, and names no folder has
            kept = msgspec.convert(one, _IndexEntry)
            if set(one["entry"]) == _NAMES and Path(name).is_dir():
                found[name] = kept
    return found


def _stamp(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]


def run_entry(folder: Path) -> RunEntry:
    """What a run is, in a line."""
    entry = RunEntry(
        name=folder.name, folder=str(folder), date=_began(folder), bytes=size_of(folder)
    )
    try:
        environment = read_environment(folder)
        said = list(record_headers(folder))
        found = [one for one in said if isinstance(one, RecordHeader)]
        points_found = point_statuses(folder, said)
    except (OSError, StoreError, *UNREADABLE) as error:  # which hides no other run
        return replace(entry, problem=_short(folder, error))
    unread = [one for one in said if isinstance(one, UnreadableLine)]
    statuses = [one.status for one in points_found]
    return replace(
        entry,
        date=str(environment.get("date") or entry.date),
        commit=str(environment.get("commit") or ""),
        ok=statuses.count("ok"),
        missing=statuses.count("missing"),
        failed=len(statuses) - statuses.count("ok") - statuses.count("missing"),
        hosts=len({host for one in found for host in one.identity.hosts}),
        networks=tuple(dict.fromkeys(one.network for one in found)),
        rehearsal=any(one.rehearsal for one in found),
        imported=any(one.source for one in found),
        unread=len(unread),
        problem=_short(folder, unread[0]) if unread else "",
    )


def _short(folder: Path, problem: object) -> str:
    """The problem without the name of the run."""
    return brief(str(problem).removeprefix(f"{folder}/").removeprefix(f"{folder}: "))


def _began(folder: Path) -> str:
    """When its records, or what was asked for, were last written."""
    paths = [folder / name for name in MARKS]
    try:
        newest = max((path.stat().st_mtime for path in paths if path.is_file()), default=0.0)
        return datetime.fromtimestamp(newest, UTC).isoformat(timespec="seconds")
    except (OSError, OverflowError, ValueError):  # a time of no year that a date has
        return ""


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; links count for nothing."""
    total, left = 0, [os.fspath(folder)]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as found:
            for one in found:
                if one.is_dir(follow_symlinks=False):
                    left.append(one.path)
                elif one.is_file(follow_symlinks=False):
                    total += one.stat(follow_symlinks=False).st_size
    return total
