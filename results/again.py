"""Again: one record derived again from the events that its processes said."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from bench.errors import brief, quoted
from results import events, store
from results.heard import Heard, accuracy_of, heard, rank_of
from results.record import Rank, Record

UNREADABLE = (*store.UNREADABLE, AssertionError, LookupError)
_SERIES = ("seconds", "ends", "cpu_seconds", "images", "losses", "own_seconds")


class Without(StrEnum):
    """Why a record cannot be derived from events, as it is printed."""

    NOT_OURS = "not measured by mxscale"
    LOGS = "without logs"
    EVENTS = "without events (measured before they were kept, or taken away)"
    OTHER_TRY = "whose logs are of another try"


@dataclass(kw_only=True)
class Again:
    """A record as its events give it.

    record   with the ranks of its events; as it was read where there are none, or not all
    ranks    those that its events give
    wrong    in what the two differ, a line each
    without  why there is nothing to derive it from
    """

    record: Record
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    without: Without | None = None


def derive(folder: Path, record: Record, where: str) -> Again:
    """The record from the events that the run folder has; `where` names it."""
    logs = folder / "logs" / record.identity.key / str(record.identity.repeat)
    files = events.said(logs)
    without = None
    if record.source:
        without = Without.NOT_OURS
    elif not logs.is_dir():
        without = Without.LOGS
    elif not files:
        without = Without.EVENTS
    elif events.recorded(logs) != record.started:
        without = Without.OTHER_TRY
    if without:
        return Again(record=record, without=without)
    return _from(record, files, events.hosts_of(logs), where)


def _from(record: Record, files: Mapping[str, Path], hosts: Mapping[str, str], where: str) -> Again:
    again = Again(record=record)
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


def _told(files: Mapping[str, Path], again: Again) -> dict[str, Heard]:
    """What each process said; one whose events are damaged is told in `again`."""
    told = {}
    for name, path in files.items():
        try:
            told[name] = heard(events.lines_of(path))
        except (OSError, *UNREADABLE) as error:
            again.wrong.append(f"{_short(path)}: cannot be read: {brief(error)}")
    return told


def _ranks(told: Mapping[str, Heard], hosts: Mapping[str, str], again: Again) -> dict[str, Rank]:
    ranks = {}
    for name, one in told.items():
        if one.rank is None:
            continue
        try:
            ranks[name] = rank_of(one, hosts.get(name, ""), name)
        except UNREADABLE as error:
            again.wrong.append(f"{name}: its events are not a worker's: {brief(repr(error))}")
    return ranks


def _short(path: Path) -> str:
    """From logs/ on."""
    return "/".join(path.parts[-4:])


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
