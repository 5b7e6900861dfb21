"""Logs of TensorFlow's Inception and CIFAR-10 examples, which TernGrad has too."""

import re
from collections.abc import Iterable

from results.imports.lines import Line
from results.imports.log import Format, Log, Reading, Stretch, number

_STEP = re.compile(
    r"(?:Worker (?P<worker>\d+): )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?"
    r": step (?P<step>\d{1,12}), loss = \S+?\s*"
    r"\((?P<rate>[-+.\w]+) examples/sec;\s*(?P<seconds>[-+.\w]+)\s*sec/batch\)"
)
_BEGUN = re.compile(r": step \d+, loss")
# By rounding of the two figures of a line.
_RATE, _SECONDS = 0.05, 0.0005


def read(lines: Iterable[Line]) -> Log:
    """What such a log says; a line is of one step of one worker."""
    reading = Reading()
    products: list[tuple[float, float]] = []
    for line in reading.over(lines):
        found = _STEP.search(line.text)
        if found is None:
            if _BEGUN.search(line.text):
                reading.spoilt.append(line.number)
            continue
        rate, seconds = number(found["rate"]), number(found["seconds"])
        step = int(found["step"])
        worker = found["worker"] or line.worker
        stretch = Stretch(worker=worker, place=(step,), steps=1, at=line.at, line=line.number)
        reading.take(_timed(stretch, rate, seconds))
        if rate > 0 and seconds > 0:
            low, high = (rate - _RATE) * (seconds - _SECONDS), (rate + _RATE) * (seconds + _SECONDS)
            products.append((low, high))
        if found["worker"]:
            reading.said["kvstore"] = "parameter_server"
    if batch := _whole(products):
        reading.said["worker_batch"] = batch
    return reading.log()


def _timed(stretch: Stretch, rate: float, seconds: float) -> Stretch:
    """With the seconds where there are any: they have more digits than the rate."""
    if seconds > 0:
        return Stretch(**{**vars(stretch), "seconds": seconds})
    return Stretch(**{**vars(stretch), "rate": rate})


def _whole(bounds: list[tuple[float, float]]) -> int:
    """The one whole number within all bounds; 0 where there is none or more than one."""
    if not bounds:
        return 0
    low, high = max(one for one, _ in bounds), min(one for _, one in bounds)
    whole = int(high)
    return whole if low <= whole and whole - 1 < low else 0


FORMAT = Format(
    name="tf-inception",
    title="TensorFlow's Inception example",
    found=_STEP.search,
    read=read,
    of="workers",
    warmup=1,
    mode="real",
)
