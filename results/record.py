"""Records of repeats: schema, JSON, checks, groups."""

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

import msgspec
import numpy as np

from bench.notes import Note, text_note
from bench.settings.secrets import masked
from bench.trial import FIELDS, Trial, composed
from im2rec_tools.errors import quoted

# 1: first. 2: a record says where its figures come from (source). 3: notes are data; the message of
# a good record is empty.
SCHEMA = 3
# Counts of anything real are below these.
_MOST, _MOST_DEVICES = 10**15, 10**7
_LEAST_SECONDS, _MOST_SECONDS = 1e-9, 1e9
_NEWER = "schema {}, written by a newer version of mxscale"
STATUSES = ("ok", "failed", "timeout", "lost", "hung", "unstable", "skipped")


@dataclass(frozen=True, kw_only=True)
class RateRank:
    """What a rate is made from of one worker's raw windows, warm-up included.

    seconds and cpu_seconds of each window, images that this rank trained in it; of equal length.

    own_seconds: of forward and backward alone, without waiting for anyone, one probe after another;
    every rank has its probes at the same windows.
    """

    rank: int
    host: str
    process: str
    seconds: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    images: tuple[int, ...] = ()
    own_seconds: tuple[float, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rank(RateRank):
    """Also each window's end by the host's clock (seconds since 1970), and the loss at its end."""

    ends: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What must be the same for a record to stand for a trial that is asked for again.

    `name` is the trial's in words, `key` the hash of its fields.
    """

    name: str
    key: str
    repeat: int
    code_hash: str
    data_manifest: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RepeatStart:
    """A repeat that is about to run: number `number` of `total` in this sweep.

    seconds_left   estimate for this repeat and all that follow; None before one has finished
    """

    trial: Trial
    identity: Identity
    number: int
    total: int
    seconds_left: float | None = None


@dataclass(frozen=True, kw_only=True)
class RateRecord:
    """A trial that has run, as a rate needs it.

    message    why it is not ok; of a good record of schema 2 or 1, its notes as text
    commands   its processes' command lines, by process
    machines   what was counted on each host as measuring began and ended, by host; since joules
               are counted, `energy` has them by source, or why they are not known
    source     "" for what mxscale measured; else where the figures come from, in words
    schema     of the line that it was read from
    notes      what a reader of its number must know
    """

    identity: Identity  # first, so that it is known of a line that was cut off
    trial: Trial
    status: str
    message: str
    ranks: tuple[RateRank, ...]
    emulated: bool
    started: str
    elapsed_seconds: float
    accuracy: float | None = None
    commands: dict[str, str] = field(default_factory=dict)
    machines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    source: str = ""
    schema: int = SCHEMA
    notes: tuple[Note, ...] = ()


def notes_of(record: RateRecord) -> tuple[Note, ...]:
    """Its notes; of a good record that was made before there were any, its message."""
    return record.notes or (text_note(record.message) if record.status == "ok" else ())


@dataclass(frozen=True, kw_only=True)
class Record(RateRecord):
    """A trial that has run, with all that its ranks said of their windows."""

    ranks: tuple[Rank, ...]


Kind = TypeVar("Kind", bound=RateRecord)
Key = TypeVar("Key")
Value = TypeVar("Value")


def emit(record: Record) -> str:
    """The record as one line of JSON without its newline; `parse` is its inverse."""
    fields = dataclasses.asdict(record) | {"trial": record.trial.fields}
    return json.dumps({"schema": record.schema, **fields})


# A trial as JSON holds it: its settings by stored name, without parts.
_StoredTrial = dataclasses.make_dataclass(
    "_StoredTrial",
    [(one.name, one.type, field(default=one.default)) for one in FIELDS.values()],
    kw_only=True,
)
_TRIALS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_StoredTrial)


def stored_trial(data: object) -> Trial:
    """The trial of decoded JSON, secrets masked; msgspec.ValidationError if it is none."""
    return composed(vars(msgspec.convert(data, _StoredTrial))).masked()


@lru_cache(maxsize=4096)
def _parse_trial(text: bytes) -> Trial:
    """As `stored_trial`, of JSON text, which all repeats of a point share."""
    return composed(vars(_TRIALS.decode(text))).masked()


def _decoder(kind: type[RateRecord]) -> msgspec.json.Decoder[Any]:
    """Decodes a record, its trial left as text."""
    fields = [
        (one.name, msgspec.Raw if one.name == "trial" else one.type, _copied(one))
        for one in dataclasses.fields(kind)
    ]
    return msgspec.json.Decoder(dataclasses.make_dataclass(kind.__name__, fields, kw_only=True))


def _copied(one: dataclasses.Field[Any]) -> Any:
    if one.default_factory is not dataclasses.MISSING:
        return field(default_factory=one.default_factory)
    return field(default=one.default)


_DECODERS = {kind: _decoder(kind) for kind in (Record, RateRecord)}


def parse(line: str | bytes) -> Record | None:
    """The record on this line, None where the line is torn.

    ValueError where it is of a newer schema or not what a record holds.
    """
    return _checked(_decoded(Record, line))


def parse_rate_record(line: str | bytes) -> RateRecord | None:
    """As `parse`, in about half of the time; a Record where ranks ran on their own clocks."""
    record = _checked(_decoded(RateRecord, line))
    return parse(line) if record and record.trial.asynchronous else record


def _decoded(kind: type[Kind], line: str | bytes) -> Kind | None:
    try:
        fields = vars(_DECODERS[kind].decode(line))
    except msgspec.ValidationError as error:
        raise ValueError(_newer(line) or str(error)) from error
    except msgspec.DecodeError:
        return _with_nan(kind, line)
    try:
        fields["trial"] = _parse_trial(bytes(fields["trial"]))
    except msgspec.ValidationError as error:
        raise ValueError(_newer(line) or _in_trial(error)) from error
    return kind(**fields)


def _in_trial(error: msgspec.ValidationError) -> str:
    """The error with the place in the record."""
    text, at, place = str(error).partition(" - at `$")
    return f"{text} - at `$.trial{place if at else '`'}"


def _checked(record: Kind | None) -> Kind | None:
    """Raises ValueError where the record is none, whatever its fields are."""
    if record is None:
        return None
    if record.schema > SCHEMA:
        raise ValueError(_NEWER.format(record.schema))
    if record.status not in STATUSES:
        raise ValueError(f"unknown status {quoted(record.status)}")
    _check_layout(record.trial)
    if record.status == "ok":
        _check(record)
    return record


def identity_of(data: Any) -> Identity:
    """The identity that JSON holds; ValueError where it is not one."""
    try:
        return msgspec.convert(data, Identity)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _with_nan(kind: type[Kind], line: str | bytes) -> Kind | None:
    """The record on a line that the quick decoder refuses, as it does NaN; None where torn."""
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    try:
        data = json.loads(text, parse_int=_whole)
    except ValueError:
        return None
    trial = data.get("trial") if isinstance(data, dict) else None
    if trial is not None:
        data["trial"] = msgspec.Raw()
    try:
        fields = vars(msgspec.convert(data, _DECODERS[kind].type))
    except msgspec.ValidationError as error:
        raise ValueError(_newer(line) or str(error)) from error
    try:
        return kind(**fields | {"trial": stored_trial(trial)})
    except msgspec.ValidationError as error:
        raise ValueError(_newer(line) or _in_trial(error)) from error


def _whole(text: str) -> int | float:
    return int(text) if len(text) < len(str(_MOST)) else float(text)


def _newer(line: str | bytes) -> str:
    """Says so where the line is of a newer schema, whatever else is wrong with it."""
    found = re.search(rb'"schema": ?(\d+)', line.encode() if isinstance(line, str) else line)
    is_newer = found is not None and int(found[1]) > SCHEMA
    return _NEWER.format(int(found[1])) if found and is_newer else ""


def _check_layout(trial: Trial) -> None:
    """Raises ValueError where its processes cannot be counted; what else it is, it may be."""
    counts = {name: value for name, value in trial.fields.items() if type(value) is int}
    for name, value in counts.items():
        if not 0 <= value < _MOST:
            raise ValueError(f"trial: {name}: {value}")
    if not 1 <= trial.layout.devices_per_worker <= trial.layout.devices <= _MOST_DEVICES:
        raise ValueError(
            f"trial: {trial.layout.devices} devices, {trial.layout.devices_per_worker} a worker"
        )
    if min(trial.layout.devices_per_host, trial.measuring.steps_per_window) < 1:
        raise ValueError("trial: devices_per_host and steps_per_window have to be above 0")


def _check(record: RateRecord) -> None:
    """Raises ValueError where a good record has no windows to make a rate from."""
    if not record.ranks:
        raise ValueError("a good record without ranks")
    for rank in record.ranks:
        ends = rank.ends if isinstance(rank, Rank) else rank.seconds
        if not len(rank.seconds) == len(ends) == len(rank.images):
            raise ValueError(f"rank {rank.rank}: lists of different lengths")
        if len(rank.seconds) <= record.trial.measuring.warmup_windows:
            raise ValueError(f"rank {rank.rank}: {len(rank.seconds)} windows, none after warm-up")
        if record.trial.asynchronous and not math.isfinite(sum(ends)):
            raise ValueError(f"rank {rank.rank}: ends of windows have to be finite")
    if not _are_sound(record.ranks):
        first = next(rank.rank for rank in record.ranks if not _are_sound([rank]))
        raise ValueError(f"rank {first}: windows have to last 1e-9 to 1e9 s and to have images")


def _are_sound(ranks: Sequence[RateRank]) -> bool:
    """Whether all their windows and probes last as long as any can, and have images."""
    each = chain.from_iterable((*rank.seconds, *rank.own_seconds) for rank in ranks)
    seconds = np.fromiter(each, float)
    images = {rank.images for rank in ranks}
    lasts = (seconds >= _LEAST_SECONDS) & (seconds <= _MOST_SECONDS)  # neither does NaN
    return bool(lasts.all()) and all(min(one, default=1) > 0 for one in images)


def conditions(record: RateRecord) -> dict[str, str]:
    """What the first rank said of them, by name."""
    facts = record.ranks[0].facts if record.ranks else {}
    variables = facts.get("variables")
    told = masked(variables) if isinstance(variables, dict) else {}
    if facts.get("instructions"):
        told["instructions"] = facts["instructions"]
    return {name: str(value) for name, value in told.items()}


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """The values of each key, keys in the order in which they come."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def differing_values(found: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """The values of what was not the same for all, by name."""
    names = sorted({name for one in found for name in one})
    values = {name: list(dict.fromkeys(one.get(name, "unset") for one in found)) for name in names}
    return {name: some for name, some in values.items() if len(some) > 1}
