"""List of runs, read without their windows.

An index caches the entries; an entry is valid while the run's files keep their sizes and times.
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

# 1: first. An index with another number is ignored.
_INDEX_SCHEMA = 1
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_STAMPED = (RECORDS, ASKED, ENVIRONMENT, LOGS, REPORT)


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run in the list.

    partial  number of points of which some repeats are not measured yet
    unread   number of lines of its log that this version cannot read
    problem  why the run, or the first of those lines, cannot be read
    """

    name: str
    folder: str
    date: str = ""
    commit: str = ""
    ok: _Count = 0
    failed: _Count = 0
    missing: _Count = 0
    partial: _Count = 0
    hosts: _Count = 0
    networks: tuple[str, ...] = ()
    bytes: _Count = 0
    rehearsal: bool = False
    imported: bool = False
    reported: bool = False
    unread: _Count = 0
    problem: str = ""


_NAMES = {field.name for field in fields(RunEntry)}


@dataclass(frozen=True, kw_only=True)
class _IndexEntry:
    """Index entry of a run, with the sizes and times of its files when it was read."""

    stamp: list[list[int]]
    entry: RunEntry


def list_runs(folder: Path, index: Path, *, keep: bool = True) -> list[RunEntry]:
    """List the runs of a folder, newest first; cache them in `index` if possible."""
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
        entries = {name: asdict(one) for name, one in (known | found).items()}
        with suppress(StoreError, ValueError):  # names that UTF-8 cannot hold
            write_text(index, json.dumps({"schema": _INDEX_SCHEMA, "runs": entries}) + "\n")
    return sorted((one.entry for one in found.values()), key=lambda one: one.date, reverse=True)


def _known(index: Path) -> dict[str, _IndexEntry]:
    """Return the valid index entries of runs that still exist."""
    try:
        data = read_json(index.parent, index.name, dict[str, Any]())
    except StoreError:
        return {}
    runs = data.get("runs") if data.get("schema") == _INDEX_SCHEMA else None
    found = {}
    for name, one in runs.items() if isinstance(runs, dict) else ():
        with suppress(
            OSError, OverflowError, ValueError
        ):  # from msgspec, and from impossible folder names
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
    """Return the list entry of a run."""
    entry = RunEntry(
        name=folder.name, folder=str(folder), date=_began(folder), bytes=size_of(folder)
    )
    try:
        environment = read_environment(folder)
        headers = list(record_headers(folder))
        found = [one for one in headers if isinstance(one, RecordHeader)]
        points_found = point_statuses(folder, headers)
    except (OSError, StoreError, *UNREADABLE) as error:  # must not hide the other runs
        return replace(entry, problem=_short(folder, error))
    unread = [one for one in headers if isinstance(one, UnreadableLine)]
    statuses = [one.status for one in points_found]
    return replace(
        entry,
        date=str(environment.get("date") or entry.date),
        commit=str(environment.get("commit") or ""),
        ok=statuses.count("ok"),
        missing=statuses.count("missing"),
        partial=statuses.count("partial"),
        failed=sum(one not in {"ok", "missing", "partial"} for one in statuses),
        hosts=len({host for one in found for host in one.identity.hosts}),
        networks=tuple(dict.fromkeys(one.network for one in found)),
        rehearsal=any(one.rehearsal for one in found),
        imported=any(one.source and not one.reported for one in found),
        reported=any(one.reported for one in found),
        unread=len(unread),
        problem=_short(folder, unread[0]) if unread else "",
    )


def _short(folder: Path, problem: object) -> str:
    """Return the problem without the run's folder."""
    return brief(str(problem).removeprefix(f"{folder}/").removeprefix(f"{folder}: "))


def _began(folder: Path) -> str:
    """Return when the records or the list of points were last written, as ISO 8601."""
    paths = [folder / name for name in MARKS]
    try:
        newest = max((path.stat().st_mtime for path in paths if path.is_file()), default=0.0)
        return datetime.fromtimestamp(newest, UTC).isoformat(timespec="seconds")
    except (OSError, OverflowError, ValueError):  # a time outside the range of dates
        return ""


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder, not counting links."""
    total, left = 0, [os.fspath(folder)]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as found:
            for one in found:
                if one.is_dir(follow_symlinks=False):
                    left.append(one.path)
                elif one.is_file(follow_symlinks=False):
                    total += one.stat(follow_symlinks=False).st_size
    return total
