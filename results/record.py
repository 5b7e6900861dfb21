"""Records of repeats: schema, JSON encoding and decoding, validation."""

import dataclasses
import json
import math
import re
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache, wraps
from struct import Struct
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.notes import Note, text_note
from bench.settings.secrets import masked
from bench.trial import FIELDS, Trial, composed
from im2rec_tools.errors import quoted

# 1: first. 2: records name the source of their figures. 3: notes are data; the message of a good
# record is empty.
SCHEMA = 3
# Upper limits of plausible counts.
_MOST, _MOST_DEVICES = 10**15, 10**7
# Latest results of a function that `kept_by_items` keeps.
_MOST_KEPT = 8
_LEAST_SECONDS, _MOST_SECONDS = 1e-9, 1e9
_NEWER = "schema {}, written by a newer version of mxscale"
# Series of ranks that records of earlier versions lack.
WAITS = ("input_wait", "run_delay")
# Series of ranks with numbers that a throughput needs.
_SERIES = ("seconds", "cpu_seconds", "own_seconds", *WAITS)
STATUSES = ("ok", "failed", "timeout", "lost", "hung", "unstable", "skipped")


@dataclass(frozen=True, kw_only=True)
class RateRank:
    """One worker's raw windows as throughput is computed from them, warm-up included.

    seconds, cpu_seconds and images (trained by this rank) have one value per window.

    own_seconds: forward and backward without waiting for other ranks, one value per probe; all
    ranks are probed at the same windows.

    input_wait and run_delay have one value per window, or none in records of earlier versions:
    seconds of waiting for images, and seconds that threads waited for a CPU, summed over threads.
    """

    rank: int
    host: str
    process: str
    seconds: Sequence[float] = ()
    cpu_seconds: Sequence[float] = ()
    images: tuple[int, ...] = ()
    own_seconds: Sequence[float] = ()
    input_wait: Sequence[float] = ()
    run_delay: Sequence[float] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Pack decoded numbers while they are in the processor's cache."""
        fields = vars(self)
        for name in _SERIES:
            if type(fields.get(name)) is list:  # the decoder leaves out defaults
                fields[name] = array("d", _packed(fields[name]))


@dataclass(frozen=True, kw_only=True)
class Rank(RateRank):
    """A RateRank with the end (seconds since 1970) and the loss of each window."""

    seconds: tuple[float, ...] = ()
    cpu_seconds: tuple[float, ...] = ()
    own_seconds: tuple[float, ...] = ()
    input_wait: tuple[float, ...] = ()
    run_delay: tuple[float, ...] = ()
    ends: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Validation:
    """A validation during training, over the images of all ranks.

    epochs    epochs trained so far
    accuracy  fraction of the validation images
    seconds   from the first batch to the end of the validation, earlier validations included; of
              the last rank
    """

    epochs: int
    accuracy: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The identity of a repeat.

    A record counts for a requested repeat if their identities are equal. `name` is the readable
    name of the trial, `key` the hash of its fields.
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

    name           name of its point among those of the sweep; '' for that of the trial
    seconds_left   estimate for this repeat and all that follow; None before one has finished
    attempt        number of its try in this sweep, by --retries
    """

    trial: Trial
    identity: Identity
    number: int
    total: int
    seconds_left: float | None = None
    attempt: int = 1
    name: str = ""


class Cause(StrEnum):
    """Kind of event that ended a job without a result.

    killed         a signal of a person, batch system or daemon ended a process
    crashed        a process ended itself by a signal, such as SIGSEGV
    memory         the kernel killed a process for lack of memory
    exited         a process failed or exited too early
    not-started    a process could not be started
    lost           an agent or its host no longer answers
    stalled        a job made no progress
    rendezvous     the processes did not all connect
    foreign        another program took a place in the job, or its port
    invalid        the job finished, but measured something else
    target-missed  the job finished below its stop_accuracy
    """

    KILLED = "killed"
    CRASHED = "crashed"
    MEMORY = "memory"
    EXITED = "exited"
    NOT_STARTED = "not-started"
    LOST = "lost"
    STALLED = "stalled"
    RENDEZVOUS = "rendezvous"
    FOREIGN = "foreign"
    INVALID = "invalid"
    TARGET_MISSED = "target-missed"


# Causes outside the trial: the same repeat can succeed at once.
TRANSIENT_CAUSES = frozenset(
    {Cause.KILLED, Cause.LOST, Cause.STALLED, Cause.RENDEZVOUS, Cause.FOREIGN}
)


@dataclass(frozen=True, kw_only=True)
class FailedProcess:
    """A process that caused a failure.

    pid      its process id on `host`, or None if it did not start
    window   the window in which it failed, counted from 1; None before its first or for servers;
             `windows` + 1 after its last
    windows  windows of its job, warm-up included; 0 if epochs decide
    silent   whether its log is empty
    """

    process: str
    host: str
    pid: int | None = None
    window: int | None = None
    windows: int = 0
    silent: bool = False


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The cause of a failed repeat; `cause` is a Cause, or one of a newer version."""

    cause: str
    processes: tuple[FailedProcess, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RateRecord:
    """The record of a repeat, without the fields that throughput does not need.

    message    why the status is not ok; in good records of schemas 1 and 2, the notes as text
    commands   command lines by process
    machines   counters at the start and the end of the measurement, by host; `energy` has joules
               by source, or the reason why there are none
    source     origin of imported or reported figures; "" for records measured by mxscale
    schema     schema number of the line it was read from
    notes      caveats and remarks on its throughput
    failure    cause of a status that is not ok; None in records of earlier versions
    validations  in order; empty in records of earlier versions
    """

    identity: Identity  # first, so that torn lines have it
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
    failure: Failure | None = None
    validations: tuple[Validation, ...] = ()

    @property
    def imported(self) -> bool:
        """Whether mxscale did not run its job: a log or a published table has the figures."""
        return bool(self.source) and not self.trial.reported


def notes_of(record: RateRecord) -> tuple[Note, ...]:
    """Return the notes; of a good record older than notes, its message."""
    return record.notes or (text_note(record.message) if record.status == "ok" else ())


@dataclass(frozen=True, kw_only=True)
class Record(RateRecord):
    """The complete record of a repeat."""

    ranks: tuple[Rank, ...]


Kind = TypeVar("Kind", bound=RateRecord)
Key = TypeVar("Key")
Value = TypeVar("Value")
Result = TypeVar("Result")
More = ParamSpec("More")
Line = str | bytes | memoryview


def emit(record: Record) -> str:
    """Encode a record as one line of JSON without newline; the inverse of `parse`."""
    settings = {
        name: value
        for name, value in record.trial.fields.items()
        if not FIELDS[name].setting.sparse or value != FIELDS[name].default
    }
    fields = dataclasses.asdict(record) | {"trial": settings}
    if record.failure is None:
        del fields["failure"]  # lines of good repeats stay as earlier versions wrote them
    if not record.validations:
        del fields["validations"]
    for rank in fields["ranks"]:
        for name in WAITS:
            if not rank[name]:
                del rank[name]
    for one in fields.get("failure", {}).get("processes", ()):
        if not one["silent"]:
            del one["silent"]  # as earlier versions wrote it
    return json.dumps({"schema": record.schema, **fields})


# A trial as stored in JSON: its settings by name, not grouped.
_StoredTrial = dataclasses.make_dataclass(
    "_StoredTrial",
    [(one.name, one.type, field(default=one.default)) for one in FIELDS.values()],
    kw_only=True,
)
_TRIALS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_StoredTrial)


def stored_trial(data: object) -> Trial:
    """Return the trial of decoded JSON, secrets masked; msgspec.ValidationError."""
    return composed(vars(msgspec.convert(data, _StoredTrial))).masked()


@lru_cache(maxsize=4096)
def _parse_trial(text: bytes) -> Trial:
    """Decode a trial from JSON text, cached because all repeats of a point share it."""
    return composed(vars(_TRIALS.decode(text))).masked()


def _decoder(kind: type[RateRecord]) -> msgspec.json.Decoder[Any]:
    """Return a decoder that leaves the trial of a record as text."""
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


def parse(line: Line) -> Record | None:
    """Decode the record on a line; None if the line is torn.

    Raises ValueError if it is invalid or of a newer schema.
    """
    return _checked(_decoded(Record, line))


def parse_rate_record(line: Line) -> RateRecord | None:
    """Decode a record in half the time of `parse`; asynchronous trials in full."""
    record = _checked(_decoded(RateRecord, line))
    return parse(line) if record and record.trial.asynchronous else record


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The parts of a record that decide whether its repeat is finished."""

    identity: Identity
    status: str
    elapsed_seconds: float
    schema: int = SCHEMA


_OUTCOMES = msgspec.json.Decoder(Outcome)


def parse_outcome(line: Line) -> Outcome | None:
    """Decode the outcome of a record, not its windows; None if the line is torn.

    Raises ValueError if it is invalid or of a newer schema.
    """
    try:
        found = _OUTCOMES.decode(line)
    except msgspec.ValidationError as error:
        raise ValueError(_newer(line) or str(error)) from error
    except msgspec.DecodeError:  # such as NaN
        record = parse_rate_record(line)
        if record is None:
            return None
        names = ("identity", "status", "elapsed_seconds")
        return Outcome(**{name: getattr(record, name) for name in names})
    _check_outcome(found)
    return found


def _check_outcome(found: "Outcome | RateRecord") -> None:
    if found.schema > SCHEMA:
        raise ValueError(_NEWER.format(found.schema))
    if found.status not in STATUSES:
        expected = ", ".join(STATUSES)
        raise ValueError(f"status: expected one of {expected}, got {quoted(found.status)}")


def _decoded(kind: type[Kind], line: Line) -> Kind | None:
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
    """Return the error with its place in the record."""
    text, at, place = str(error).partition(" - at `$")
    return f"{text} - at `$.trial{place if at else '`'}"


def _checked(record: Kind | None) -> Kind | None:
    """Return the record; ValueError if its values are invalid."""
    if record is None:
        return None
    _check_outcome(record)
    _check_layout(record.trial)
    for one in record.validations:
        if not (one.epochs >= 0 <= one.seconds <= _MOST_SECONDS and 0 <= one.accuracy <= 1):
            raise ValueError("validations: expected epochs, seconds and an accuracy of 0 to 1")
    if record.status == "ok":
        _check(record)
    return record


def identity_of(data: Any) -> Identity:
    """Return the identity of decoded JSON; ValueError if invalid."""
    try:
        return msgspec.convert(data, Identity)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _with_nan(kind: type[Kind], line: Line) -> Kind | None:
    """Decode a line that the fast decoder rejects, e.g. for NaN; None if it is torn."""
    text = line if isinstance(line, str) else str(line, "utf-8", "replace")
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


def _newer(line: Line) -> str:
    """Return the error for a line of a newer schema; empty for other lines."""
    found = re.search(rb'"schema": ?(\d+)', line.encode() if isinstance(line, str) else line)
    is_newer = found is not None and int(found[1]) > SCHEMA
    return _NEWER.format(int(found[1])) if found and is_newer else ""


def _check_layout(trial: Trial) -> None:
    """Raise ValueError if the number of processes cannot be computed."""
    counts = {name: value for name, value in trial.fields.items() if type(value) is int}
    for name, value in counts.items():
        if not 0 <= value < _MOST:
            raise ValueError(f"trial: {name}: expected 0 to {_MOST - 1}, got {value}")
    if not 1 <= trial.layout.devices_per_worker <= trial.layout.devices <= _MOST_DEVICES:
        got = f"{trial.layout.devices} with {trial.layout.devices_per_worker} per worker"
        raise ValueError(f"trial: devices: expected 1 or more per worker, got {got}")
    if min(trial.layout.devices_per_host, trial.measuring.steps_per_window) < 1:
        raise ValueError("trial: devices_per_host, steps_per_window: expected 1 or more")


def _check(record: RateRecord) -> None:
    """Raise ValueError if a good record lacks valid windows."""
    if not record.ranks:
        raise ValueError("status ok, but no ranks")
    warmup, asynchronous = record.trial.measuring.warmup_windows, record.trial.asynchronous
    for rank in record.ranks:
        ends = rank.ends if isinstance(rank, Rank) else rank.seconds
        if not len(rank.seconds) == len(ends) == len(rank.images):
            raise ValueError(f"rank {rank.rank}: seconds, ends and images differ in length")
        for name in WAITS:
            waits = getattr(rank, name)
            if waits and len(waits) != len(rank.seconds):
                raise ValueError(f"rank {rank.rank}: seconds and {name} differ in length")
        if len(rank.seconds) <= warmup:
            raise ValueError(f"rank {rank.rank}: {len(rank.seconds)} windows, none after warm-up")
        if asynchronous and not math.isfinite(sum(ends)):
            raise ValueError(f"rank {rank.rank}: ends of windows: expected finite numbers")
    if not _are_sound(record.ranks):
        first = next(rank.rank for rank in record.ranks if not _are_sound([rank]))
        raise ValueError(f"rank {first}: windows: expected 1e-9 to 1e9 s and 1 image or more each")
    waited = joined(one for rank in record.ranks for one in (rank.input_wait, rank.run_delay))
    if not ((waited >= 0) & (waited <= _MOST_SECONDS)).all():  # False for NaN
        raise ValueError(f"{', '.join(WAITS)}: expected 0 to 1e9 s each")


def joined(series: Iterable[Sequence[float]]) -> NDArray[np.float64]:
    """Return the numbers of several series in one array; np.array takes longer."""
    return np.frombuffer(
        b"".join([one if isinstance(one, array) else _packed(one) for one in series])
    )


def _packed(series: Sequence[float]) -> bytes:
    return _packing(len(series))(*series)


@lru_cache(maxsize=64)
def _packing(count: int) -> Callable[..., bytes]:
    """Return a function that packs so many numbers; all series of a job have as many."""
    return Struct(f"{count}d").pack


def _are_sound(ranks: Sequence[RateRank]) -> bool:
    """Return whether all durations are plausible and all windows have images."""
    seconds = joined(one for rank in ranks for one in (rank.seconds, rank.own_seconds))
    images = {rank.images for rank in ranks}
    lasts = (seconds >= _LEAST_SECONDS) & (seconds <= _MOST_SECONDS)  # False for NaN
    return bool(lasts.all()) and all(min(one, default=1) > 0 for one in images)


def conditions(record: RateRecord) -> dict[str, str]:
    """Return the variables and CPU instructions that the first rank reported, by name."""
    facts = record.ranks[0].facts if record.ranks else {}
    variables = facts.get("variables")
    found = masked(variables) if isinstance(variables, dict) else {}
    if facts.get("instructions"):
        found["instructions"] = facts["instructions"]
    return {name: str(value) for name, value in found.items()}


def amount(value: object) -> float | None:
    """Return a finite number that is not negative; None for any other value of a host."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= sys.float_info.max else None


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Group values by key, keys in order of first appearance."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def kept_by_items(
    function: Callable[Concatenate[Sequence[Value], More], Result],
) -> Callable[Concatenate[Sequence[Value], More], Result]:
    """Keep the latest results of a function, by the identity of its arguments.

    Every part of a report asks the same of the same rows, and a run has thousands of them. Callers
    must not change a result.
    """
    kept: dict[tuple[int, ...], tuple[tuple[object, ...], Result]] = {}

    @wraps(function)
    def result_of(items: Sequence[Value], /, *more: More.args, **named: More.kwargs) -> Result:
        arguments = (*items, *more, *named, *named.values())
        key = tuple(map(id, arguments))
        found = kept.pop(key, None)
        # Arguments stay alive with their result, so no other object gets one of their ids.
        found = kept[key] = found or (arguments, function(items, *more, **named))
        if len(kept) > _MOST_KEPT:
            del kept[next(iter(kept))]
        return found[1]

    return result_of


def kept(function: Callable[[Value], Result]) -> Callable[[Value], Result]:
    """Keep the latest results of a function of one object; see `kept_by_items`."""

    @kept_by_items
    def of_items(items: Sequence[Value]) -> Result:
        return function(items[0])

    @wraps(function)
    def result_of(item: Value) -> Result:
        return of_items([item])

    return result_of


def differing_values(found: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the values of entries that differ between the mappings, by name."""
    names = sorted({name for one in found for name in one})
    values = {name: list(dict.fromkeys(one.get(name, "unset") for one in found)) for name in names}
    return {name: some for name, some in values.items() if len(some) > 1}
