"""Records against the events they were made from, and the rows that those events give."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from results.again import UNREADABLE, Again, derive
from results.errors import StoreError
from results.measured import Measured, measured
from results.record import Record
from results.run import Run, run_of
from results.store import Unread, each, log_of


@dataclass(kw_only=True)
class Verified:
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


def derived(folder: Path) -> tuple[Run | None, Verified]:
    """The run that the raw events give, from records where there are none, and what differs.

    There is no run where no record can be read.
    """
    said: list[Measured | Unread] = []
    attempts: dict[tuple[str, int], Again] = {}
    result = Verified()
    log = log_of(folder)
    for number, one in each(log):
        where = f"records.jsonl line {number}"
        if isinstance(one, Unread):
            said.append(one)
            continue
        try:
            again = derive(folder, one, f"{where} ({one.identity.name}, repeat {_number(one)})")
            attempts[one.identity.key, one.identity.repeat] = again
            said.append(measured(again.record))
        except UNREADABLE as error:
            said.append(Unread(log=log, line=number, reason=str(error)))
    # The report left them out too; whether they were changed since, the digest tells.
    unread = [one for one in said if isinstance(one, Unread)]
    result.unchecked += [str(one).replace(f"{folder}/", "") for one in unread]
    for again in attempts.values():
        result.wrong += again.wrong
        result.ranks += len(again.ranks)
        result.windows += sum(len(rank.seconds) for rank in again.ranks.values())
    result.unchecked += _without(list(attempts.values()))
    try:
        return run_of(folder, said), result
    except (StoreError, *UNREADABLE) as error:
        result.wrong.append(str(error))
        return None, result


def _number(record: Record) -> object:
    repeat = record.identity.repeat
    return repeat + 1 if isinstance(repeat, int) else repeat


def _without(attempts: Sequence[Again]) -> Iterator[str]:
    for why in dict.fromkeys(again.without for again in attempts if again.without):
        count = sum(again.without == why for again in attempts)
        yield f"{count} of {len(attempts)} repeats: {why}; their windows are taken as recorded"
