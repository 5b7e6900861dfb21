"""Decoder of event lines that processes wrote; it validates untrusted input. Pure."""

import json
import re
from typing import Annotated, Any, Required, TypedDict

import msgspec
from msgspec import Meta

from bench.events import KINDS, Event
from bench.notes import of_json

# Limits of counts and times; records have the same.
_Count = Annotated[int, Meta(ge=0, le=10**15)]
_Positive = Annotated[int, Meta(ge=1, le=10**15)]
_Duration = Annotated[float, Meta(ge=1e-9, le=1e9)]
_Time = Annotated[float, Meta(ge=0, le=1e12)]
_Wait = Annotated[float, Meta(ge=0, le=1e9)]
_Rank = Annotated[int, Meta(ge=-1, le=10**7)]
_Word = Annotated[str, Meta(max_length=1000)]
_MOST_DEPTH = 8


class _Event(TypedDict):
    event: str
    rank: _Rank


class _WindowEvent(_Event, total=False):
    index: _Count
    seconds: Required[_Duration]
    end: Required[_Time]
    cpu_seconds: _Time
    images: Required[_Positive]
    steps: _Positive
    loss: float  # NaN if training diverges
    own_seconds: _Duration
    input_wait: _Wait
    run_delay: _Wait


class _ReadyEvent(_Event, total=False):
    num_workers: Required[_Positive]
    worker_batch: Required[_Count]
    cached_bytes: _Count | None
    data_bytes: _Positive | None
    arrays: _Count
    bytes_each_way: _Count


class _EpochEvent(_Event, total=False):
    epoch: _Count
    correct: Required[_Count]
    total: Required[_Count]
    in_top_k: _Count
    seconds: _Time


class _ValidationEvent(_Event, total=False):
    total: _Count


class _DoneEvent(_Event, total=False):
    ended: _Word
    weight_hash: _Word | None
    peak_memory_bytes: _Count
    peak_device_memory_bytes: _Count
    own_seconds: Annotated[list[_Duration], Meta(max_length=1000)]
    notes: Annotated[list[dict[str, Any]], Meta(max_length=1000)]


class _RefusedEvent(_Event, total=False):
    count: Required[_Count]


class _FailedEvent(_Event, total=False):
    message: Required[str]
    error: _Word


_TYPES: dict[str, Any] = {
    "reached": _Event,
    "registered": _Event,
    "refused": _RefusedEvent,
    "ready": _ReadyEvent,
    "window": _WindowEvent,
    "measured": _Event,
    "validating": _ValidationEvent,
    "epoch": _EpochEvent,
    "done": _DoneEvent,
    "failed": _FailedEvent,
}
assert set(_TYPES) == KINDS
_DECODERS = {name: msgspec.json.Decoder(one) for name, one in _TYPES.items()}
# Events with additional facts, which records store unchanged.
_OPEN = frozenset({"ready", "done"})
_KIND = re.compile(r'\{"event": ?"([a-z]{1,16})"')


def decoded(line: str) -> Event | None:
    """Decode the event on a line; None if the line is torn or no event.

    Raises ValueError for an event with fields of a wrong type or range.
    """
    found = _KIND.match(line)
    kind = found[1] if found else ""
    if kind in _DECODERS and kind not in _OPEN:
        try:
            return _event(_DECODERS[kind].decode(line))
        except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:
            raise ValueError(f"{kind}: {str(error)[:200]}") from error
        except msgspec.DecodeError:
            pass  # a torn line, or a NaN loss
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not isinstance(values.get("event"), str):
        return None
    return _event(_checked(values)) if values["event"] in KINDS else None


def _event(values: dict[str, Any]) -> Event:
    kind, rank = values.pop("event"), values.pop("rank")
    return Event(kind=kind, rank=rank, values=values)


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of an event; ValueError if they are invalid."""
    kind = values["event"]
    try:
        known: dict[str, Any] = msgspec.convert(values, _TYPES[kind])
    except msgspec.ValidationError as error:
        raise ValueError(f"{kind}: {str(error)[:200]}") from error
    if kind not in _OPEN:
        return known
    sizes = {type(values.get(name)) for name in ("cached_bytes", "data_bytes")}
    if len(sizes) > 1 or ("cached_bytes" in values) != ("data_bytes" in values):
        raise ValueError(f"{kind}: expected cached_bytes and data_bytes, or neither")
    if _is_deep(values, _MOST_DEPTH):
        raise ValueError(f"{kind}: expected at most {_MOST_DEPTH} levels, got more")
    for note in values.get("notes", ()):
        of_json(note)
    return values


def _is_deep(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deep(one, levels - 1) for one in inner)
