"""MLPerf's :::MLLOG and :::MLL lines: throughput, or times of epochs and blocks."""

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from bench.errors import SpecError, error_line, quoted
from bench.logs.lines import Line
from bench.logs.log import Format, Log, Stretch
from bench.notes import Note, NoteKind

_EVENT = re.compile(
    r":::MLLOGv?[\d.]{0,16} (?P<json>\{.*\})"
    r"|:::MLL (?P<seconds>[\d.]{1,32}) (?P<key>\w{1,64}): (?P<old>\{.*\})",  # v0.6
    re.ASCII,
)
_BEGUN = ":::MLL"
_STATED = {
    "global_batch_size": "global_batch",
    "number_of_nodes": "hosts",
    "num_nodes": "hosts",
    "number_of_ranks": "devices",
}
# The rules of the benchmark "resnet" require this data set.
_IMAGENET = 1_281_167
_SAMPLES = ("train_samples", "num_train_examples", "preproc_num_train_examples", "input_size")
_PLACES = ("step", "step_num", "samples_count", "epoch_num", "first_epoch_num")
_NO_IMAGES = re.compile(
    r"(?:bert|gnmt|transformer|translation|ncf|recommendation|dlrm|minigo|reinforcement|rnnt"
    r"|gpt|llama|gnn|rgat|mixtral|flux|stable_diffusion|unet3d)",
    re.IGNORECASE,
)
_NO_GPU = re.compile(r"\b(?:tpu|ascend|npu|gaudi|hpu|ipu)", re.IGNORECASE)
_MOST = 1e15
# Limit of spans times evaluations; the log of one job has a few thousand.
_MOST_PAIRS = 2_000_000
# An accuracy is logged within this time after its span.
_MOMENT_MS = 100

Event = tuple[Line, dict[str, Any]]


def read(lines: Iterable[Line]) -> Log:
    """Read such a log: throughput, else images and times of epochs or blocks."""
    log = Log()
    events = list(_events(log, log.over(lines)))
    for _, event in events:
        _stated(log, event)
    amounts = (_amount(event.get("value")) for _, event in events if event["key"] in _SAMPLES)
    samples = next((one for one in amounts if one > 0), 0.0)
    samples = samples or log.arguments.integer("num_examples")
    assumed = []
    if not samples and log.stated.get("network") == "resnet":
        samples = _IMAGENET
        assumed = [Note(NoteKind.LOG_ASSUMED, {"what": [f"{_IMAGENET} images per epoch"]})]
    for stretch in _throughputs(events):
        log.take(stretch)
    for kind in ("epoch", "block"):
        if not log.stretches:
            spans = list(_spans(events, kind))
            evaluations = [one.times for one in _spans(events, "eval")]
            counts = [event for _, event in events if event["key"] == "epoch_count"]
            if len(spans) * (len(evaluations) + len(counts)) > _MOST_PAIRS:
                raise SpecError(
                    error_line(
                        f"{kind}_start events",
                        expected="the log of one job",
                        got=f"{len(spans)} {kind}s with {len(evaluations)} evaluations",
                        fix="Cut the log into one file per job",
                    )
                )
            for span in spans:
                log.take(_stretch(span, evaluations, samples * _epochs(span, counts)))
            log.notes += assumed if log.stretches else []
            if log.stretches and _has_evaluation(spans, events):
                log.notes.append(Note(NoteKind.LOG_EVALUATION))
    return log.whole()


def header(log: Log, text: str) -> None:
    """Collect the settings in an MLPerf line of another format's log."""
    event = _parsed(text) if _BEGUN in text else None
    if event:
        _stated(log, event)


def _events(log: Log, lines: Iterable[Line]) -> Iterator[Event]:
    """Yield each event once, even if many ranks print it."""
    seen = set()
    for line in lines:
        if _BEGUN not in line.text:
            continue
        event = _parsed(line.text)
        if event is None:
            log.spoilt.append(line.number)
            continue
        where, value = _place(event), event.get("value")
        names = tuple(value) if isinstance(value, dict) else ()
        once = (event["key"], names, where or _amount(event.get("time_ms")))
        if once not in seen:
            seen.add(once)
            yield line, event


def _found(text: str) -> re.Match[str] | None:
    return _EVENT.search(text, 0, text.rfind("}") + 1)  # the bound spares ".*" backtracking


def _parsed(text: str) -> dict[str, Any] | None:
    found = _found(text)
    if found is None:
        return None
    text = found["json"] or found["old"]
    try:
        try:
            event = json.loads(text)
        except ValueError:  # Intel's MXNet prints the metadata as Python does, in single quotes
            event = json.loads(text.replace("'", '"'))
        if found["key"]:
            event = {**event, "key": found["key"], "time_ms": 1000 * float(found["seconds"])}
    except (ValueError, TypeError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("key"), str) else None


def _amount(value: object) -> float:
    """Return the value if it is a possible count or time above 0, else NaN."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _MOST:
        return float(value)
    return math.nan


def _metadata(event: dict[str, Any]) -> dict[str, Any]:
    metadata = event.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _place(event: dict[str, Any]) -> float:
    """Return the step, samples or epoch of an event; 0 if unknown."""
    metadata = _metadata(event)
    found = (_amount(metadata.get(name)) for name in _PLACES)
    return next((place for place in found if place > 0), 0.0)


def _stated(log: Log, event: dict[str, Any]) -> None:
    key, value = event["key"], event.get("value")
    if key == "submission_benchmark" and isinstance(value, str):
        if _NO_IMAGES.match(value):
            got = f"the benchmark {quoted(value)}"
            raise SpecError(error_line(key, expected="training on images", got=got))
        log.stated["network"] = value
    elif key in _STATED and _amount(value).is_integer():
        log.stated[_STATED[key]] = int(_amount(value))
    elif key == "submission_platform" and isinstance(value, str) and _NO_GPU.search(value):
        log.stated["device"] = "other"
    elif key in {"eval_accuracy", "eval_result"} and _amount(value) > 0:
        log.accuracy = _amount(value)


def _throughputs(events: list[Event]) -> Iterator[Stretch]:
    for order, (line, event) in enumerate(events):
        value = event.get("value")
        if event["key"] == "tracked_stats" and isinstance(value, dict):
            value = value.get("throughput")
        elif event["key"] != "throughput":
            continue
        if value is not None:
            yield Stretch(place=(order,), steps=1, rate=_amount(value), line=line.number)


class _Span(NamedTuple):
    """An epoch or block: first event, and last event with its place among all."""

    start: dict[str, Any]
    order: int
    line: Line
    stop: dict[str, Any]

    @property
    def times(self) -> tuple[float, float]:
        """Start and end in milliseconds."""
        return _amount(self.start.get("time_ms")), _amount(self.stop.get("time_ms"))


def _spans(events: list[Event], kind: str) -> Iterator[_Span]:
    """Pair each start with the stop of the same epoch, or the next stop if unnumbered.

    Events of the same millisecond may be in any order.
    """
    starts: dict[float, dict[str, Any]] = {}
    for order, (line, event) in enumerate(events):
        if event["key"] == f"{kind}_start":
            starts[_place(event)] = event
        elif event["key"] == f"{kind}_stop":
            start = starts.pop(_place(event), None) or starts.pop(0.0, None)
            if start is None and not _place(event) and len(starts) == 1:
                _, start = starts.popitem()
            if start is not None:
                yield _Span(start, order, line, event)


def _stretch(
    span: _Span, evaluations: list[tuple[float, float]], images_of_epochs: float
) -> Stretch:
    """Return a span's images and training time, without evaluations inside it."""
    begin, end = span.times
    evaluated = sum(max(0.0, min(end, after) - max(begin, before)) for before, after in evaluations)
    images, counts = images_of_epochs, [_metadata(one) for one in (span.start, span.stop)]
    if all("samples_count" in one for one in counts):
        first, last = (_amount(one["samples_count"]) for one in counts)
        images = last - max(0.0, first)
    seconds = (end - begin - evaluated) / 1000
    return Stretch(
        place=(span.order,),
        seconds=seconds if images > 0 and seconds > 0 else math.nan,
        images=round(images) if images > 0 else 0,
        line=span.line.number,
    )


def _has_evaluation(spans: list[_Span], events: list[Event]) -> bool:
    """Return whether spans contain an evaluation of unknown duration."""
    if any(True for _ in _spans(events, "eval")):
        return False
    times = [
        _amount(event.get("time_ms")) for _, event in events if event["key"] == "eval_accuracy"
    ]
    ends = [span.times for span in spans]
    some = itertools.islice(itertools.product(times, ends), _MOST_PAIRS)
    return any(begin < at <= end + _MOMENT_MS for at, (begin, end) in some)


def _epochs(span: _Span, counts: list[dict[str, Any]]) -> float:
    """Return the number of epochs of a span; NaN for a block without one."""
    count = _amount(_metadata(span.start).get("epoch_count"))
    if count > 0 or span.start["key"] == "epoch_start":
        return count if count > 0 else 1.0
    begin, end = span.times
    inside = (one for one in counts if begin <= _amount(one.get("time_ms")) <= end)
    return next((_amount(event.get("value")) for event in inside), math.nan)


FORMAT = Format(
    name="mlperf",
    title="MLPerf's :::MLLOG and :::MLL",
    found=lambda text: _BEGUN in text and _found(text),
    read=read,
    of="job",
    warmup=0,
    mode="real",
)
