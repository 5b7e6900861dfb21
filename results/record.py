"""Record: what one run of a trial left behind, and Started, what is known before it runs."""

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from bench.trial import FIELDS, Trial
from bench.values import checked

Kind = TypeVar("Kind")
# 1: first. 2: a record says where its figures come from (source).
SCHEMA = 2
# Counts of anything real are below these.
_MOST, _MOST_DEVICES = 10**15, 10**7
STATUSES = ("ok", "failed", "timeout", "lost", "hung", "unstable", "skipped")


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One worker's raw windows, warm-up included; the lists are of equal length.

    seconds and cpu_seconds of each window, its end by the host's clock (seconds since 1970), images
    that this rank trained in it, loss at its end.

    own_seconds: of forward and backward alone, without waiting for anyone, one probe after another;
    every rank has its probes at the same windows.
    """

    rank: int
    host: str
    process: str
    seconds: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    images: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    own_seconds: tuple[float, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


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
class Started:
    """A trial that is about to run: number `number` of `total` in this sweep."""

    trial: Trial
    identity: Identity
    number: int
    total: int


@dataclass(frozen=True, kw_only=True)
class Record:
    """A trial that has run.

    commands   its processes' command lines, by process
    machines   what was counted on each host as measuring began and ended, by host; since joules
               are counted, `energy` has them by source, or why they are not known
    source     "" for what mxscale measured; else where the figures come from, in words
    """

    trial: Trial
    identity: Identity
    status: str
    message: str
    ranks: tuple[Rank, ...]
    emulated: bool
    started: str
    elapsed_seconds: float
    accuracy: float | None = None
    commands: dict[str, str] = field(default_factory=dict)
    machines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    source: str = ""


def emit(record: Record) -> str:
    """The record as one line of JSON without its newline; `parse` is its inverse."""
    return json.dumps({"schema": SCHEMA, **dataclasses.asdict(record)})


def parse(line: str | bytes) -> Record | None:
    """The record on this line, None where the line is torn.

    ValueError, SpecError or TypeError where it is of a newer schema or not what a record holds.
    """
    data = _json(line)
    if data is None:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
        raise TypeError("it has no schema number")
    if (schema := data.pop("schema")) > SCHEMA:
        raise ValueError(f"schema {schema}, written by a newer version of mxscale")
    fields = data.pop("trial")
    trial = Trial(**{name: checked(name, FIELDS[name].type, fields[name]) for name in fields})
    _check_layout(trial)
    identity = identity_of(data.pop("identity"))
    ranks = tuple(_made(Rank, rank) for rank in data.pop("ranks"))
    record = _made(Record, data | {"trial": trial, "identity": identity, "ranks": ranks})
    if record.status not in STATUSES:
        raise ValueError(f"unknown status {record.status!r}")
    if record.status == "ok":
        _check(record)
    return record


def identity_of(data: Any) -> Identity:
    """The identity that JSON holds; TypeError where it is not one."""
    if not isinstance(data, dict):
        raise TypeError(f"identity: {data!r:.40}")
    return _made(Identity, data)


def _json(line: str | bytes) -> Any:
    """What the line says; None where it is torn. orjson is quick, but knows no NaN."""
    try:
        return orjson.loads(line)
    except ValueError:
        pass
    try:
        return json.loads(line, parse_int=_whole)
    except ValueError:
        return None


def _whole(text: str) -> int | float:
    return int(text) if len(text) < len(str(_MOST)) else float(text)


def _made(kind: type[Kind], values: dict[str, Any]) -> Kind:
    """The dataclass of these values; TypeError where a value is not of its field's kind."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        held = tuple(value) if isinstance(value, list) else value
        if name not in _HELD[kind] or not _HELD[kind][name](held):
            raise TypeError(f"{kind.__name__.lower()}: {name}: {value!r:.40}")
        made[name] = held
    return kind(**made)


def _check_layout(trial: Trial) -> None:
    """Raises ValueError where its processes cannot be counted; what else it is, it may be."""
    counts = {name: value for name, value in vars(trial).items() if type(value) is int}
    for name, value in counts.items():
        if not 0 <= value < _MOST:
            raise ValueError(f"trial: {name}: {value}")
    if not 1 <= trial.devices_per_worker <= trial.devices <= _MOST_DEVICES:
        raise ValueError(f"trial: {trial.devices} devices, {trial.devices_per_worker} a worker")
    if min(trial.devices_per_host, trial.steps_per_window) < 1:
        raise ValueError("trial: devices_per_host and steps_per_window have to be above 0")


def _check(record: Record) -> None:
    """Raises ValueError where a good record has no windows to make a rate from."""
    if not record.ranks:
        raise ValueError("a good record without ranks")
    for rank in record.ranks:
        lists = (rank.seconds, rank.ends, rank.images)
        if len({len(one) for one in lists}) != 1:
            raise ValueError(f"rank {rank.rank}: lists of different lengths")
        if len(rank.seconds) <= record.trial.warmup_windows:
            raise ValueError(f"rank {rank.rank}: {len(rank.seconds)} windows, none after warm-up")
        above_0 = rank.seconds, rank.own_seconds, rank.images
        # Of a sum with a number that is not finite nothing finite is left; min finds no NaN.
        if not all(math.isfinite(sum(one)) and min(one, default=1) > 0 for one in above_0):
            raise ValueError(f"rank {rank.rank}: seconds and images have to be above 0")
        if record.trial.asynchronous and not math.isfinite(sum(rank.ends)):
            raise ValueError(f"rank {rank.rank}: ends of windows have to be finite")


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _all(*kinds: type) -> Callable[[Any], bool]:
    allowed = frozenset(kinds)
    return lambda value: type(value) is tuple and allowed.issuperset(map(type, value))


def _by_text(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        type(value) is dict and all(type(k) is str and fits(v) for k, v in value.items())
    )


_TEXT, _COUNT, _NUMBER = _is(str), _is(int), _is(float, int)
_NUMBERS, _TEXTS, _FACTS = _all(float, int), _all(str), _by_text(lambda _: True)
# What the fields of each may hold.
_HELD: dict[type, dict[str, Callable[[Any], bool]]] = {
    Identity: dict.fromkeys(("name", "key", "code_hash", "data_manifest"), _TEXT)
    | {"repeat": _COUNT, "hosts": _TEXTS},
    Rank: dict.fromkeys(("host", "process"), _TEXT)
    | dict.fromkeys(("seconds", "ends", "cpu_seconds", "losses", "own_seconds"), _NUMBERS)
    | {"rank": _COUNT, "images": _all(int), "facts": _FACTS},
    Record: dict.fromkeys(("status", "message", "started", "source"), _TEXT)
    | {"trial": _is(Trial), "identity": _is(Identity), "ranks": _all(Rank)}
    | {"emulated": _is(bool), "elapsed_seconds": _NUMBER, "commands": _by_text(_TEXT)}
    | {"accuracy": _is(float, int, type(None)), "machines": _by_text(_is(list))},
}
