"""Rederive records from the events of their processes, and compare them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from bench.errors import brief, quoted
from results import run_folder, store, worker_log
from results.errors import StoreError
from results.record import WAITS, Rank, Record
from results.repeat import RepeatSummary, summarize
from results.run import Run, build_run
from results.store import UnreadableLine, record_lines, record_log
from results.worker_log import (
    WorkerLog,
    accuracy_of,
    parse_worker_log,
    rank_of,
    validations_of,
)

UNREADABLE = (*store.UNREADABLE, AssertionError, LookupError)
_SERIES = ("seconds", "ends", "cpu_seconds", "images", "losses", "own_seconds", *WAITS)


class SkipReason(StrEnum):
    """Reasons why a record cannot be rederived from events, as printed."""

    NOT_OURS = "not measured by mxscale"
    LOGS = "no logs"
    EVENTS = "no events (recorded by an older version, or deleted)"
    OTHER_TRY = "logs are of another attempt"


@dataclass(kw_only=True)
class DerivedRecord:
    """A record rederived from its events.

    record       the record with the ranks from its events; as stored if ranks are missing
    ranks        ranks that the events give
    wrong        differences, one line each
    skip_reason  why it could not be rederived, or None
    """

    record: Record
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    skip_reason: SkipReason | None = None


def rederive(folder: Path, record: Record, where: str) -> DerivedRecord:
    """Rederive a record from the run's events; `where` names it in messages."""
    newest = run_folder.job_logs(folder, record.identity.key, record.identity.repeat)
    logs = _logs_of(newest, record.started)
    files = worker_log.event_files(logs or newest)
    without = None
    if record.imported:
        without = SkipReason.NOT_OURS
    elif not newest.is_dir() or any(one.is_symlink() for one in (newest, *newest.parents[:2])):
        without = SkipReason.LOGS
    elif not files:
        without = SkipReason.EVENTS
    elif logs is None:
        without = SkipReason.OTHER_TRY
    if without or logs is None:
        return DerivedRecord(record=record, skip_reason=without)
    return _from(record, files, worker_log.process_hosts(logs), where)


def _logs_of(newest: Path, started: str) -> Path | None:
    """Return the log folder of the try that started then; None without exactly one."""
    folders = [newest, *run_folder.try_folders(newest)]
    found = [one for one in folders if worker_log.recorded_start(one) == started]
    return found[0] if len(found) == 1 else None


def _from(
    record: Record, files: Mapping[str, Path], hosts: Mapping[str, str], where: str
) -> DerivedRecord:
    again = DerivedRecord(record=record)
    recorded = {rank.process: rank for rank in record.ranks}
    logs = _worker_logs(files, again)
    again.ranks = _ranks(logs, hosts, again)
    for name in recorded:
        if name not in files:
            again.wrong.append(f"{where}: {name} has no events, unlike other processes")
        elif name in logs and logs[name].rank is None:
            again.wrong.append(f"{where}: the events of {name} give no rank")
    for name, rank in again.ranks.items():
        again.wrong += [f"{where}, {one}" for one in _differences(recorded.get(name), rank)]
    if set(again.ranks) == set(recorded):
        epochs = [logs[name].epochs for name in recorded]
        accuracy, validations = accuracy_of(epochs), validations_of(epochs)
        if accuracy != record.accuracy:
            again.wrong.append(
                f"{where}: validation accuracy {record.accuracy}, events give {accuracy}"
            )
        if validations != record.validations:
            again.wrong.append(f"{where}: validations differ from those of the events")
        ranks = tuple(again.ranks[name] for name in recorded)
        again.record = replace(record, ranks=ranks, accuracy=accuracy, validations=validations)
    return again


def _worker_logs(files: Mapping[str, Path], again: DerivedRecord) -> dict[str, WorkerLog]:
    """Parse the events of each process; add a line to `again.wrong` for damaged files."""
    logs = {}
    for name, path in files.items():
        try:
            logs[name] = parse_worker_log(worker_log.read_lines(path))
        except (OSError, *UNREADABLE) as error:
            short = "/".join(path.parts[-4:])  # from logs/ onward
            again.wrong.append(f"{short}: cannot be read: {brief(error)}")
    return logs


def _ranks(
    logs: Mapping[str, WorkerLog], hosts: Mapping[str, str], again: DerivedRecord
) -> dict[str, Rank]:
    ranks = {}
    for name, one in logs.items():
        if one.rank is None:
            continue
        try:
            ranks[name] = rank_of(one, hosts.get(name, ""), name)
        except UNREADABLE as error:
            again.wrong.append(f"{name}: expected events of a worker: {brief(repr(error))}")
    return ranks


def _differences(rank: Rank | None, again: Rank) -> Iterator[str]:
    """Yield the differences between a recorded rank and the one its events give."""
    who = f"rank {again.rank} ({again.process} on {again.host})"
    if rank is None:
        yield f"{who}: missing in the record"
        return
    for name in ("rank", "host", "process"):
        recorded, found = getattr(rank, name), getattr(again, name)
        if recorded != found:
            yield f"{who}: {name} {quoted(recorded)}, events give {quoted(found)}"
    for name in _SERIES:
        yield from _first(name, list(getattr(rank, name)), list(getattr(again, name)), who)
    for name in sorted(rank.facts.keys() | again.facts.keys()):
        recorded, found = rank.facts.get(name), again.facts.get(name)
        if not _alike(recorded, found):
            yield f"{who}: {name} {quoted(recorded)}, events give {quoted(found)}"


def _first(name: str, recorded: list[Any], found: list[Any], who: str) -> Iterator[str]:
    """Yield the first difference between two series."""
    item = "probe" if name == "own_seconds" else "window"
    for number, (one, other) in enumerate(zip(recorded, found, strict=False), 1):
        if not _alike(one, other):
            yield f"{who}, {item} {number}: {name} {quoted(one)}, events give {quoted(other)}"
            return
    if len(recorded) != len(found):
        yield f"{who}: {len(recorded)} {item}s have {name}, events give {len(found)}"


def _alike(one: object, other: object) -> bool:
    return one == other or json.dumps(one) == json.dumps(other)  # NaN is not equal to itself


@dataclass(kw_only=True)
class VerifyResult:
    """Result of a verification.

    wrong      errors, one line each
    unchecked  parts that could not be checked, one line each
    lacking    parts of the report that should have been compared but were not, one line each
    ranks      number of ranks rederived from events
    windows    number of windows rederived from events
    rows       number of rows of the report that were checked
    digest     digest of the run's current files
    """

    wrong: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    ranks: int = 0
    windows: int = 0
    rows: int = 0
    digest: str = ""


def rederive_run(folder: Path) -> tuple[Run | None, VerifyResult]:
    """Rederive a run from its events, and list the differences.

    Repeats without events are taken as recorded. The run is None if no record can be read.
    """
    repeats: list[RepeatSummary | UnreadableLine] = []
    attempts: dict[tuple[str, int], DerivedRecord] = {}
    older: list[
        DerivedRecord
    ] = []  # tries that were measured again since, as far as they have logs
    result = VerifyResult()
    log = record_log(folder)
    for number, one in record_lines(log):
        where = f"{run_folder.RECORDS} line {number}"
        if isinstance(one, UnreadableLine):
            repeats.append(one)
            continue
        try:
            again = rederive(folder, one, f"{where} ({one.identity.name}, repeat {_number(one)})")
            before = attempts.get((one.identity.key, one.identity.repeat))
            older += [before] if before and not before.skip_reason else []
            attempts[one.identity.key, one.identity.repeat] = again
            repeats.append(summarize(again.record))
        except UNREADABLE as error:
            repeats.append(UnreadableLine(log=log, line=number, reason=str(error)))
    # The report skips them too; the digest shows whether they were modified since.
    unread = [one for one in repeats if isinstance(one, UnreadableLine)]
    result.unchecked += [str(one).replace(f"{folder}/", "") for one in unread]
    for again in (*older, *attempts.values()):
        result.wrong += again.wrong
        result.ranks += len(again.ranks)
        result.windows += sum(len(rank.seconds) for rank in again.ranks.values())
    skipped = Counter(one.skip_reason for one in attempts.values() if one.skip_reason)
    result.unchecked += (
        f"{count} of {len(attempts)} repeats: {why}; windows taken as recorded"
        for why, count in skipped.items()
    )
    try:
        return build_run(folder, repeats), result
    except (StoreError, *UNREADABLE) as error:
        result.wrong.append(str(error))
        return None, result


def _number(record: Record) -> object:
    repeat = record.identity.repeat
    return repeat + 1 if isinstance(repeat, int) else repeat
