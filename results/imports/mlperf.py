"""MLPerf's :::MLLOG lines: speeds of whole jobs, from what they track or from times of epochs."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from results.imports.lines import Line
from results.imports.log import Format, Log, Reading, Stretch

_EVENT = re.compile(r":::MLLOGv?[\d.]* (?P<json>\{.*\})")
_BEGUN = ":::MLLOG"
_SAID = {
    "global_batch_size": "global_batch",
    "number_of_nodes": "hosts",
    "num_nodes": "hosts",
    "number_of_ranks": "devices",
}
_PLACES = ("step", "step_num", "samples_count", "epoch_num", "first_epoch_num")
_MOST = 1e15

Event = tuple[Line, dict[str, Any]]


def read(lines: Iterable[Line]) -> Log:
    """What such a log says; throughput where it is told, else images and times of epochs."""
    reading = Reading()
    events = list(_events(reading, reading.over(lines)))
    for _, event in events:
        _header(reading, event)
    for found in (_throughputs(events), _epochs(events, "epoch"), _epochs(events, "block")):
        for stretch in found:
            reading.take(stretch)
        if reading.stretches:
            break
    return reading.log()


def _events(reading: Reading, lines: Iterable[Line]) -> Iterator[Event]:
    """Each event once, though many ranks may say it."""
    seen = set()
    for line in lines:
        if _BEGUN not in line.text:
            continue
        found = _EVENT.search(line.text)
        event = _parsed(found["json"]) if found else None
        if event is None:
            reading.spoilt.append(line.number)
            continue
        where, value = _place(event), event.get("value")
        told = tuple(value) if isinstance(value, dict) else ()
        once = (event["key"], told, where or _amount(event.get("time_ms")))
        if once not in seen:
            seen.add(once)
            yield line, event


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("key"), str) else None


def _amount(value: object) -> float:
    """The value where it is a number above 0 that a count or a time can be, else NaN."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MOST:
        return float(value)
    return math.nan


def _metadata(event: dict[str, Any]) -> dict[str, Any]:
    told = event.get("metadata")
    return told if isinstance(told, dict) else {}


def _place(event: dict[str, Any]) -> float:
    """The step, samples or epoch that an event is of; 0 where it does not say."""
    told = _metadata(event)
    found = (_amount(told.get(name)) for name in _PLACES)
    return next((place for place in found if place > 0), 0.0)


def _header(reading: Reading, event: dict[str, Any]) -> None:
    key, value = event["key"], event.get("value")
    if key == "submission_benchmark" and isinstance(value, str):
        reading.said["network"] = value
    elif key in _SAID and _amount(value).is_integer():
        reading.said[_SAID[key]] = int(_amount(value))
    elif key in {"eval_accuracy", "eval_result"} and _amount(value) > 0:
        reading.accuracy = _amount(value)


def _throughputs(events: list[Event]) -> Iterator[Stretch]:
    for order, (line, event) in enumerate(events):
        value = event.get("value")
        if event["key"] == "tracked_stats" and isinstance(value, dict):
            value = value.get("throughput")
        elif event["key"] != "throughput":
            continue
        if value is not None:
            yield Stretch(place=(order,), steps=1, rate=_amount(value), line=line.number)


def _epochs(events: list[Event], kind: str) -> Iterator[Stretch]:
    """From each start to the stop that follows it."""
    samples = next((_amount(e.get("value")) for _, e in events if e["key"] == "train_samples"), 0.0)
    start: dict[str, Any] = {}
    for order, (line, event) in enumerate(events):
        if event["key"] == f"{kind}_start":
            start = event
        elif event["key"] == f"{kind}_stop" and start:
            images = _images(start, event, samples)
            if images > 0:
                seconds = (_amount(event.get("time_ms")) - _amount(start.get("time_ms"))) / 1000
                yield Stretch(
                    place=(order,),
                    seconds=seconds or math.nan,
                    images=round(images),
                    line=line.number,
                )
            start = {}


def _images(start: dict[str, Any], stop: dict[str, Any], samples: float) -> float:
    """Images between the two: as they count them, else as many as their epochs have."""
    begin, end = _metadata(start), _metadata(stop)
    if "samples_count" in begin and "samples_count" in end:
        return _amount(end["samples_count"]) - max(0.0, _amount(begin["samples_count"]))
    return samples * _amount(begin.get("epoch_count", 1))


FORMAT = Format(
    name="mlperf",
    title="MLPerf's :::MLLOG",
    found=_EVENT.search,
    read=read,
    of="job",
    warmup=0,
    mode="real",
)
