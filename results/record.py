"""Record: what one run of a trial left behind, and Started, what is known before it runs."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any

from bench.trial import FIELDS, Trial
from bench.values import checked

# 1: first. 2: a record says where its figures come from (source).
SCHEMA = 2
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


def parse(line: str) -> Record | None:
    """The record on this line, None where the line is torn; ValueError for a newer schema."""
    try:
        data = json.loads(line)
    except ValueError:
        return None
    if data.pop("schema") > SCHEMA:
        raise ValueError("written by a newer version of mxscale")
    fields = data.pop("trial")
    trial = Trial(**{name: checked(name, FIELDS[name].type, fields[name]) for name in fields})
    identity = Identity(**{name: _tuples(v) for name, v in data.pop("identity").items()})
    ranks = tuple(
        Rank(**{name: _tuples(value) for name, value in rank.items()}) for rank in data.pop("ranks")
    )
    record = Record(trial=trial, identity=identity, ranks=ranks, **data)
    if record.status == "ok":
        _check(record)
    return record


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
        above_0 = (*rank.seconds, *rank.own_seconds, *rank.images)
        if not all(math.isfinite(one) and one > 0 for one in above_0):
            raise ValueError(f"rank {rank.rank}: seconds and images have to be above 0")


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
