"""Logs of MXNet scripts: all formats of its Speedometer, GluonCV and Horovod ones too."""

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from bench.errors import SpecError
from results.imports import mlperf
from results.imports.lines import Line
from results.imports.log import Format, Log, Reading, Stretch, number, rounding

_EPOCH = r"(?:Epoch|Iter(?:ation)?)\s?\[(?P<epoch>\d{1,12})\]"
_SPEED = re.compile(
    rf"(?:Node\[(?P<node>\d+)\]\s*)?{_EPOCH}\s*,?\s*(?:Rank\[(?P<rank>\d+)\]\s*)?"
    r"Batch\s*\[(?:(?P<begin>\d{1,12})-)?(?P<batch>\d{1,12})\]\s*"
    r"Speed:\s*(?P<speed>[-+.\w]+)\s*(?:samples|images)/s(?:ec)?\b"
    r"(?:\s+(?P<metric>[^\s=]+)=)?"
)
_BEGUN = re.compile(r"Speed:|Epoch\s?\[\d+\]\s*,?\s*Bat[ch]*\s*\[?[\d-]*\]?\s*$")
_ACCURACY = re.compile(
    r"(?:Node\[(?P<node>\d+)\]\s*)?Epoch\s?\[\d+\]\s*Validation-(?:top-?1-?acc\w*|accuracy)"
    r"\s*=\s*(?P<value>[-+.\w]+)"
)
_COST = re.compile(rf"{_EPOCH}\s*Time cost\s*=\s*(?P<seconds>[-+.\w]+)")
_WORDS = ("Speed:", "speed:", "Epoch", "Iter", "Start training", ":::MLL")
# What Module's fit prints of the devices of a process.
_DEVICES = re.compile(r"Start training with \[((?:[cg]pu\(\d+\)(?:, )?)+)\]")
# Of translators such as Sockeye, which train with a Speedometer of sentences.
_NO_IMAGES = re.compile(r"samples/sec\s+[\d.]+\s+tokens/sec")
# GluonCV's scripts, after each epoch.
_WHOLE = re.compile(
    r"\[Epoch (?P<epoch>\d{1,12})\] speed: (?P<speed>[-+.\w]+) samples/sec\s+time cost: "
    r"(?P<seconds>[-+.\w]+)"
)


def read(lines: Iterable[Line]) -> Log:
    """What such a log says; a speed is of one worker."""
    reading = Reading()
    metrics = _Metrics()
    wholes: list[float] = []
    listed: set[str] = set()
    for line in reading.over(lines):
        if not any(word in line.text for word in _WORDS):
            continue  # as most lines of most logs; patterns take longer
        found = list(_SPEED.finditer(line.text))
        for one in found:
            stretch = _stretch(line, one)
            if metrics.is_new(stretch, one):
                reading.take(stretch)
        if found and _NO_IMAGES.search(line.text):
            raise SpecError(f"line {line.number}: expected speeds of images, got those of tokens")
        if devices := _DEVICES.search(line.text):
            listed.add(devices[1])
        if len(_BEGUN.findall(line.text)) > len(found):
            reading.spoilt.append(line.number)
        if cost := _COST.search(line.text):
            reading.epochs.append((int(cost["epoch"]), number(cost["seconds"])))
        if whole := _WHOLE.search(line.text):
            reading.epochs.append((int(whole["epoch"]), number(whole["seconds"])))
            wholes.append(number(whole["speed"]))
        accuracy = _ACCURACY.search(line.text)
        if accuracy and (accuracy["node"] or "0") == "0":
            value = number(accuracy["value"])
            reading.accuracy = value if math.isfinite(value) else reading.accuracy
        mlperf.header(reading, line.text)
    # The first epoch has what a script does once.
    after = wholes[1:] or wholes
    reading.total = sum(after) / len(after) if after else 0.0
    log = reading.log()
    if len(listed) == 1 and log.said.get("kvstore") != "horovod":
        (names,) = listed
        own = {"devices_per_worker": names.count("("), "device": names[:3]}
        return replace(log, said={**own, **log.said})
    return log


class _Metrics:
    """Which lines repeat a window: older Speedometers print a line for each metric."""

    def __init__(self) -> None:
        self._counts: dict[tuple[object, ...], dict[str, int]] = {}

    def is_new(self, stretch: Stretch, found: re.Match[str]) -> bool:
        """Whether this line is of a window that no line before it is of."""
        counts = self._counts.setdefault((stretch.worker, stretch.place, found["speed"]), {})
        windows = max(counts.values(), default=0)
        metric = found["metric"] or ""
        counts[metric] = counts.get(metric, 0) + 1
        return counts[metric] > windows


def _stretch(line: Line, found: re.Match[str]) -> Stretch:
    batch, begin = int(found["batch"]), found["begin"]
    return Stretch(
        worker=found["node"] or found["rank"] or line.worker,
        place=(int(found["epoch"]), batch),
        steps=max(batch - int(begin), 0) if begin else 0,
        rate=number(found["speed"]),
        rounding=rounding(found["speed"]),
        at=line.at,
        line=line.number,
    )


FORMAT = Format(
    name="mxnet",
    title="MXNet's Speedometer",
    found=lambda text: "Speed:" in text and _SPEED.search(text),
    read=read,
    of="workers",
    warmup=1,
    mode="real",
)
