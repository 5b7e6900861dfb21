"""Records against the events they were made from, and the rows that those events give."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.errors import SpecError
from results.again import UNREADABLE, Again, derive
from results.errors import StoreError
from results.measured import Measured, measured
from results.record import Identity, Record, parse
from results.run import Run, run_of


@dataclass(kw_only=True)
class Verified:
    """What came out of a check.

    wrong      what is not as it has to be, a line each
    unchecked  what nothing could be told of, a line each
    ranks      of how many ranks the windows were derived again, and how many windows
    rows       of how many rows of the report the cells were
    digest     of the run's files as they are
    """

    wrong: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    ranks: int = 0
    windows: int = 0
    rows: int = 0
    digest: str = ""


def derived(folder: Path) -> tuple[Run | None, Verified]:
    """The run that the raw events give, from records where there are none, and what differs.

    There is no run where no record can be read.
    """
    found: dict[Identity, Measured] = {}
    attempts: dict[tuple[str, int], Again] = {}
    result = Verified()
    for where, record in _records(folder, result):
        try:
            again = derive(folder, record, where)
            attempts[record.identity.key, record.identity.repeat] = again
            found[record.identity] = measured(again.record)
        except UNREADABLE as error:
            result.wrong.append(f"{where}: no rate can be made from it: {error}")
    for again in attempts.values():
        result.wrong += again.wrong
        result.ranks += len(again.ranks)
        result.windows += sum(len(rank.seconds) for rank in again.ranks.values())
    result.unchecked += _without(list(attempts.values()))
    try:
        return run_of(folder, found.values()), result
    except (StoreError, *UNREADABLE) as error:
        result.wrong.append(str(error))
        return None, result


def _records(folder: Path, result: Verified) -> Iterator[tuple[str, Record]]:
    """Each record that can be read, with its line."""
    log = folder / "records.jsonl"
    try:
        lines = log.open(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StoreError(f"{log}: cannot be read ({error.strerror})") from error
    with lines:
        for number, line in enumerate(lines, 1):
            where = f"records.jsonl line {number}"
            try:
                record = parse(line)
            except (SpecError, *UNREADABLE) as error:
                result.wrong.append(f"{where}: is no record: {error}")
                continue
            if record is None:
                result.unchecked.append(f"{where} was cut off as it was written; no point needs it")
            else:
                yield f"{where} ({record.identity.name}, repeat {_number(record)})", record


def _number(record: Record) -> object:
    repeat = record.identity.repeat
    return repeat + 1 if isinstance(repeat, int) else repeat


def _without(attempts: Sequence[Again]) -> Iterator[str]:
    for why in dict.fromkeys(again.without for again in attempts if again.without):
        count = sum(again.without == why for again in attempts)
        yield f"{count} of {len(attempts)} repeats: {why}; their windows are taken as recorded"
