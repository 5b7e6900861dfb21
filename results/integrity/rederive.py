"""Records computed again from the events of their processes, and compared."""

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
from results.record import Rank, Record
from results.repeat import RepeatSummary, summarize
from results.run import Run, build_run
from results.store import UnreadableLine, record_lines, record_log
from results.worker_log import WorkerLog, accuracy_of, parse_worker_log, rank_of

UNREADABLE = (*store.UNREADABLE, AssertionError, LookupError)
_SERIES = ("seconds", "ends", "cpu_seconds", "images", "losses", "own_seconds")


class SkipReason(StrEnum):
    """Why a record cannot be derived from events, as it is printed."""

    NOT_OURS = "not measured by mxscale"
    LOGS = "without logs"
    EVENTS = "without events (measured before they were kept, or taken away)"
    OTHER_TRY = "whose logs are of another try"


@dataclass(kw_only=True)
class DerivedRecord:
    """A record as its events give it.

    record   with the ranks of its events; as it was read where there are none, or not all
    ranks    those that its events give
    wrong    in what the two differ, a line each
    skip_reason  why there is nothing to derive it from
    """

    record: Record
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    skip_reason: SkipReason | None = None


def rederive(folder: Path, record: Record, where: str) -> DerivedRecord:
    """The record from the events that the run folder has; `where` names it."""
    logs = run_folder.job_logs(folder, record.identity.key, record.identity.repeat)
    files = worker_log.event_files(logs)
    without = None
    if record.source:
        without = SkipReason.NOT_OURS
    elif not logs.is_dir():
        without = SkipReason.LOGS
    elif not files:
        without = SkipReason.EVENTS
    elif worker_log.recorded_start(logs) != record.started:
        without = SkipReason.OTHER_TRY
    if without:
        return DerivedRecord(record=record, skip_reason=without)
    return _from(record, files, worker_log.process_hosts(logs), where)


def _from(
    record: Record, files: Mapping[str, Path], hosts: Mapping[str, str], where: str
) -> DerivedRecord:
    again = DerivedRecord(record=record)
    recorded = {rank.process: rank for rank in record.ranks}
    told = _told(files, again)
    again.ranks = _ranks(told, hosts, again)
    for name in recorded:
        if name not in files:
            again.wrong.append(f"{where}: {name} has no events, other processes have")
    for name, rank in again.ranks.items():
        again.wrong += [f"{where}, {one}" for one in _differences(recorded.get(name), rank)]
    if set(again.ranks) == set(recorded):
        accuracy = accuracy_of([told[name].epochs for name in recorded])
        if accuracy != record.accuracy:
            again.wrong.append(
                f"{where}: validation accuracy {record.accuracy}, its events say {accuracy}"
            )
        ranks = tuple(again.ranks[name] for name in recorded)
        again.record = replace(record, ranks=ranks, accuracy=accuracy)
    return again


def _told(files: Mapping[str, Path], again: DerivedRecord) -> dict[str, WorkerLog]:
    """What each process said; one whose events are damaged is told in `again`."""
    told = {}
    for name, path in files.items():
        try:
            told[name] = parse_worker_log(worker_log.read_lines(path))
        except (OSError, *UNREADABLE) as error:
            short = "/".join(path.parts[-4:])  # from logs/ on
            again.wrong.append(f"{short}: cannot be read: {brief(error)}")
    return told


def _ranks(
    told: Mapping[str, WorkerLog], hosts: Mapping[str, str], again: DerivedRecord
) -> dict[str, Rank]:
    ranks = {}
    for name, one in told.items():
        if one.rank is None:
            continue
        try:
            ranks[name] = rank_of(one, hosts.get(name, ""), name)
        except UNREADABLE as error:
            again.wrong.append(f"{name}: its events are not a worker's: {brief(repr(error))}")
    return ranks


def _differences(rank: Rank | None, again: Rank) -> Iterator[str]:
    """In what a recorded rank is not what its events give."""
    who = f"rank {again.rank} ({again.process} on {again.host})"
    if rank is None:
        yield f"{who}: is not in the record"
        return
    for name in ("rank", "host", "process"):
        said, found = getattr(rank, name), getattr(again, name)
        if said != found:
            yield f"{who}: its {name} is {quoted(said)}, its events say {quoted(found)}"
    for name in _SERIES:
        yield from _first(name, list(getattr(rank, name)), list(getattr(again, name)), who)
    for name in sorted(rank.facts.keys() | again.facts.keys()):
        said, found = rank.facts.get(name), again.facts.get(name)
        if not _alike(said, found):
            yield f"{who}: {name} is {quoted(said)}, its events say {quoted(found)}"


def _first(name: str, said: list[Any], found: list[Any], who: str) -> Iterator[str]:
    """The first place where two series differ."""
    what = "probe" if name == "own_seconds" else "window"
    for number, (one, other) in enumerate(zip(said, found, strict=False), 1):
        if not _alike(one, other):
            yield f"{who}, {what} {number}: {name} {quoted(one)}, its events say {quoted(other)}"
            return
    if len(said) != len(found):
        yield f"{who}: {len(said)} {what}s have {name}, its events say {len(found)}"


def _alike(one: object, other: object) -> bool:
    return one == other or json.dumps(one) == json.dumps(other)  # nan is not itself


@dataclass(kw_only=True)
class VerifyResult:
    """What came out of a check.

    wrong      what is not as it has to be, a line each
    unchecked  what nothing could be told of, a line each
    lacking    what of the report was not compared though it has to be, a line each
    ranks      of how many ranks the windows were derived again, and how many windows
    rows       of how many rows of the report the cells were
    digest     of the run's files as they are
    """

    wrong: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    ranks: int = 0
    windows: int = 0
    rows: int = 0
    digest: str = ""


def rederive_run(folder: Path) -> tuple[Run | None, VerifyResult]:
    """The run that the raw events give, from records where there are none, and what differs.

    There is no run where no record can be read.
    """
    said: list[RepeatSummary | UnreadableLine] = []
    attempts: dict[tuple[str, int], DerivedRecord] = {}
    result = VerifyResult()
    log = record_log(folder)
    for number, one in record_lines(log):
        where = f"{run_folder.RECORDS} line {number}"
        if isinstance(one, UnreadableLine):
            said.append(one)
            continue
        try:
            again = rederive(folder, one, f"{where} ({one.identity.name}, repeat {_number(one)})")
            attempts[one.identity.key, one.identity.repeat] = again
            said.append(summarize(again.record))
        except UNREADABLE as error:
            said.append(UnreadableLine(log=log, line=number, reason=str(error)))
    # The report left them out too; whether they were changed since, the digest tells.
    unread = [one for one in said if isinstance(one, UnreadableLine)]
    result.unchecked += [str(one).replace(f"{folder}/", "") for one in unread]
    for again in attempts.values():
        result.wrong += again.wrong
        result.ranks += len(again.ranks)
        result.windows += sum(len(rank.seconds) for rank in again.ranks.values())
    skipped = Counter(one.skip_reason for one in attempts.values() if one.skip_reason)
    result.unchecked += (
        f"{count} of {len(attempts)} repeats: {why}; their windows are taken as recorded"
        for why, count in skipped.items()
    )
    try:
        return build_run(folder, said), result
    except (StoreError, *UNREADABLE) as error:
        result.wrong.append(str(error))
        return None, result


def _number(record: Record) -> object:
    repeat = record.identity.repeat
    return repeat + 1 if isinstance(repeat, int) else repeat
