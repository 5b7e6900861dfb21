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
    "submission_benchmark": "network",
    "global_batch_size": "global_batch",
    "number_of_nodes": "hosts",
    "num_nodes": "hosts",
    "number_of_ranks": "devices",
}

Event = tuple[Line, dict[str, Any]]


def read(lines: Iterable[Line]) -> Log:
    """What such a log says; throughput where it is told, else images and times of epochs."""
    reading = Reading()
    events = list(_events(reading, reading.over(lines)))
    for _, event in events:
        _header(reading, event)
    for found in (_throughputs(events), _epochs(events, "epoch"), _epochs(events, "block")):
        for stretch in found:
            if stretch.images or stretch.steps:
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
        once = (event["key"], told, where or event.get("time_ms"))
        if once not in seen:
            seen.add(once)
            yield line, event


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("key"), str) else None


def _place(event: dict[str, Any]) -> int:
    """The step, samples or epoch that an event is of; 0 where it does not say."""
    metadata = event.get("metadata")
    told = metadata if isinstance(metadata, dict) else {}
    for name in ("step", "step_num", "samples_count", "epoch_num", "first_epoch_num"):
        if isinstance(told.get(name), int | float):
            return int(told[name])
    return 0


def _header(reading: Reading, event: dict[str, Any]) -> None:
    key, value = event["key"], event.get("value")
    if key in _SAID and isinstance(value, str | int):
        reading.said[_SAID[key]] = value
    elif key in {"eval_accuracy", "eval_result"} and isinstance(value, int | float):
        reading.accuracy = float(value)


def _throughputs(events: list[Event]) -> Iterator[Stretch]:
    for order, (line, event) in enumerate(events):
        value = event.get("value")
        if event["key"] == "tracked_stats" and isinstance(value, dict):
            value = value.get("throughput")
        elif event["key"] != "throughput":
            continue
        if isinstance(value, int | float):
            yield Stretch(place=(order,), steps=1, rate=float(value), line=line.number)


def _epochs(events: list[Event], kind: str) -> Iterator[Stretch]:
    """From each start to the stop that follows it."""
    samples = next((e.get("value") for _, e in events if e["key"] == "train_samples"), None)
    start: dict[str, Any] = {}
    for order, (line, event) in enumerate(events):
        if event["key"] == f"{kind}_start":
            start = event
        elif event["key"] == f"{kind}_stop" and start:
            yield Stretch(
                place=(order,),
                seconds=(event.get("time_ms", 0) - start.get("time_ms", 0)) / 1000 or math.nan,
                images=_images(start, event, samples),
                line=line.number,
            )
            start = {}


def _images(start: dict[str, Any], stop: dict[str, Any], samples: object) -> int:
    """Images between the two: as they count them, else as many as their epochs have."""
    begin, end = ((one.get("metadata") or {}) for one in (start, stop))
    if "samples_count" in begin and "samples_count" in end:
        return int(end["samples_count"] - begin["samples_count"])
    epochs = begin.get("epoch_count", 1)
    return round(samples * epochs) if isinstance(samples, int) else 0


FORMAT = Format(
    name="mlperf",
    title="MLPerf's :::MLLOG",
    found=_EVENT.search,
    read=read,
    of="job",
    warmup=0,
    mode="real",
)
