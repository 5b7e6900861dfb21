"""Reader of a run's records: summaries, headers, points."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.engines.catalog import find_engine
from bench.errors import error_line, quoted
from bench.networks import describe
from bench.settings.point_names import point_names
from bench.trial import Trial
from results.errors import StoreError, store_errors
from results.record import (
    SCHEMA,
    STATUSES,
    Identity,
    grouped,
    identity_of,
    parse_rate_record,
    stored_trial,
)
from results.repeat import RepeatSummary, summarize
from results.run_folder import ASKED, RECORDS
from results.store import (
    UNREADABLE,
    UnreadableLine,
    is_present,
    log_lines,
    log_parts,
    parsed_lines,
    read_json,
    record_log,
)

_RANKS = re.compile(rb',\s*"ranks":\s*\[')
_SOURCE = re.compile(rb'"source":\s*("(?:[^"\\]|\\.)*")')
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class RecordHeader:
    """The fields before a record's ranks, its source, and whether it is reported."""

    identity: Identity
    status: str
    message: str
    network: str
    rehearsal: bool
    source: str
    reported: bool = False


@dataclass(frozen=True, kw_only=True)
class PointStatus:
    """The status of a point of a run.

    status   ok; that of a repeat that is not ok; missing if no repeat is measured yet, partial
             if some are not
    message  message of the repeat that is not ok
    good     number of repeats with status ok
    repeats  number of requested repeats
    """

    name: str
    key: str
    status: str
    message: str
    good: int
    repeats: int


def asked_identities(folder: Path) -> list[Identity]:
    """Return the identities that the last sweep requested; empty if it left none."""
    try:
        asked: list[Any] = read_json(folder, ASKED, [])
        return [identity_of(one) for one in asked]
    except ValueError as error:
        raise StoreError(_not_points(folder, error)) from error


def asked_trials(folder: Path) -> list[Trial]:
    """Return the trials that the last sweep requested; empty if it left none."""
    asked: list[Any] = read_json(folder, ASKED, [])
    try:
        found = [one["trial"] for one in asked if isinstance(one, dict) and "trial" in one]
        return [stored_trial(one) for one in found]
    except msgspec.ValidationError as error:
        raise StoreError(_not_points(folder, error)) from error


def asked_names(folder: Path) -> dict[str, str]:
    """Return the name of each point that the last sweep requested, by key."""
    trials = asked_trials(folder)
    return dict(zip((one.key for one in trials), point_names(trials), strict=True))


def _not_points(folder: Path, error: Exception) -> str:
    return error_line(folder / ASKED, expected="a list of points", problem=str(error))


def point_statuses(
    folder: Path, found: Iterable[RecordHeader | UnreadableLine]
) -> list[PointStatus]:
    """Return the requested points in order; all points if no request was stored."""
    newest = {one.identity: one for one in found if isinstance(one, RecordHeader)}
    groups = grouped((name.key, name) for name in asked_identities(folder) or list(newest))
    names: dict[str, str] = {}
    with suppress(StoreError):  # trials of another version
        names = asked_names(folder)
    return [
        _point(
            names.get(key, group[0].name),
            group,
            [newest[name] for name in group if name in newest],
        )
        for key, group in groups.items()
    ]


def _point(name: str, asked: Sequence[Identity], found: Sequence[RecordHeader]) -> PointStatus:
    bad = next((one for one in found if one.status != "ok"), None)
    lacks = "" if len(found) == len(asked) else "partial" if found else "missing"
    return PointStatus(
        name=name,
        key=asked[0].key,
        status=bad.status if bad else lacks or "ok",
        message=bad.message if bad else "",
        good=sum(one.status == "ok" for one in found),
        repeats=len(asked),
    )


def record_headers(folder: Path) -> Iterator[RecordHeader | UnreadableLine]:
    """Yield record headers, oldest first, and unreadable lines; skip torn lines."""
    log = folder / RECORDS
    if not is_present(log):
        return
    with store_errors(log, "read"), log.open("rb") as file:
        for number, line in enumerate(log_lines(file), 1):
            try:
                front = _front(line)
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
                reason = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
                yield UnreadableLine(log=log, line=number, reason=reason)
                continue
            if front is not None:
                yield front


def _front(line: memoryview) -> RecordHeader | None:
    """Decode the header of a record; None if the line is torn."""
    ranks, tail = _RANKS.search(line), bytes(line[-_TAIL_BYTES:])
    is_whole = tail.endswith(b"}\n")
    text = bytes(line[: ranks.start()]) + b"}" if ranks and is_whole else bytes(line)
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if not isinstance(data, dict):
        raise TypeError(f"expected a JSON object, got {quoted(data)}")
    if data["schema"] > SCHEMA:
        raise ValueError(f"schema {data['schema']}, written by a newer version of mxscale")
    trial = data["trial"]
    network, layers = trial["network"], trial["num_layers"]
    if not isinstance(network, str) or not isinstance(layers, int | None):
        raise TypeError(
            f"trial: expected a network and its layers, got {quoted(network)}, {quoted(layers)}"
        )
    if data["status"] not in STATUSES or not isinstance(data["message"], str):
        raise ValueError(
            f"expected a known status and a text as message, got status {quoted(data['status'])}, "
            f"message {quoted(data['message'])}"
        )
    sources = _SOURCE.findall(tail)
    return RecordHeader(
        identity=identity_of(data["identity"]),
        status=data["status"],
        message=data["message"],
        network="input" if trial["mode"] == "test-io" else describe(network, layers),
        rehearsal=find_engine(trial["engine"]).scripted,
        source=json.loads(sources[-1]) if sources else "",
        reported=bool(trial.get("command")) and not find_engine(trial["engine"]).scripted,
    )


def read_summaries(folder: Path) -> Iterator[RepeatSummary | UnreadableLine]:
    """Return the summary of each record, oldest first, and the unreadable lines.

    Raises StoreError if the folder is missing or its log cannot be read.
    """
    return log_parts(record_log(folder), _part)


def _part(log: Path, begin: int, end: int) -> list[RepeatSummary | UnreadableLine]:
    found: list[RepeatSummary | UnreadableLine] = []
    for number, one in parsed_lines(log, parse_rate_record, begin, end):
        try:
            found.append(one if isinstance(one, UnreadableLine) else summarize(one))
        except UNREADABLE as error:  # valid fields that contradict each other
            found.append(UnreadableLine(log=log, line=number, reason=str(error)))
    return found
