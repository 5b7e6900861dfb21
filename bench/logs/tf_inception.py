"""Logs of TensorFlow's Inception and CIFAR-10 examples, which TernGrad has too."""

import re
from collections.abc import Iterable
from dataclasses import replace

from bench.logs.lines import Line
from bench.logs.log import Format, Log, Stretch, number, rounding

_STEP = re.compile(
    r"(?:Worker (?P<worker>\d{1,9}): )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    r": step (?P<step>\d{1,12}), loss = \S{1,64}?\s{0,8}"
    r"\((?P<rate>[-+.\w]{1,64}) examples/sec;\s{0,8}(?P<seconds>[-+.\w]{1,64})\s{0,8}sec/batch\)",
    re.ASCII,
)
_BEGUN = re.compile(r": step \d{1,12}, loss", re.ASCII)

_MOST_BATCH = 10**12


def rates(line: Line) -> list[Stretch]:
    """Return the step that a line prints; with seconds if its rate is rounded to 0."""
    found = _STEP.search(line.text)
    if found is None:
        return []
    worker, step = found["worker"] or line.worker, int(found["step"])
    stretch = Stretch(worker=worker, place=(step,), steps=1, at=line.at, line=line.number)
    if (rate := number(found["rate"])) > 0:
        return [replace(stretch, rate=rate, rounding=rounding(found["rate"]))]
    seconds = number(found["seconds"])
    return [replace(stretch, seconds=seconds, rounding=rounding(found["seconds"]))]


def read(lines: Iterable[Line]) -> Log:
    """Read such a log; a line reports one step of one worker.

    The product of a line's two figures is a batch. The multi-GPU scripts of CIFAR-10 divide the
    seconds by the GPUs, so the product is the batch of one GPU; in other scripts, of a worker.
    """
    log = Log()
    products: list[tuple[float, float]] = []
    precise: dict[int, float] = {}
    for line in log.over(lines):
        found = _STEP.search(line.text)
        if found is None:
            if _BEGUN.search(line.text):
                log.spoilt.append(line.number)
            continue
        rate, seconds = number(found["rate"]), number(found["seconds"])
        of_rate, of_seconds = rounding(found["rate"]), rounding(found["seconds"])
        log.take(*rates(line))
        if rate > 0 and seconds > 0:
            ends = [(1 + sign * of_rate) * (1 + sign * of_seconds) for sign in (-1, 1)]
            products.append((rate * seconds * ends[0], rate * seconds * ends[1]))
            if of_seconds < of_rate:
                precise[line.number] = seconds
        if found["worker"]:
            log.stated["kvstore"] = "parameter_server"
    if batch := _whole(products):
        log.stated["product"] = batch
        log.stretches = [_refined(one, batch, precise) for one in log.stretches]
    return log.whole()


def _refined(stretch: Stretch, batch: int, precise: dict[int, float]) -> Stretch:
    """Take the rate from the seconds if they have more digits than the printed rate."""
    seconds = precise.get(stretch.line)
    if seconds is None:
        return stretch
    return replace(stretch, rate=batch / seconds, rounding=min(stretch.rounding, 5e-4 / seconds))


def _whole(bounds: list[tuple[float, float]]) -> int:
    """Return the one whole number within every bound; 0 if not exactly one."""

    if not bounds:
        return 0
    low, high = max(one for one, _ in bounds), min(one for _, one in bounds)
    whole = int(high) if high <= _MOST_BATCH else 0
    return whole if low <= whole and whole - 1 < low else 0


FORMAT = Format(
    name="tf-inception",
    title="TensorFlow's Inception example",
    found=lambda text: " examples/sec" in text and _STEP.search(text),
    read=read,
    of="workers",
    warmup=1,
    mode="real",
    rates=rates,
    begun=_BEGUN.search,
)
