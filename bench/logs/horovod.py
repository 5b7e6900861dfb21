"""Logs of Horovod's synthetic benchmark, and of AWS's training script for Horovod."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.logs.arguments import BYTEPS, HOROVOD
from bench.logs.lines import Line
from bench.logs.log import Format, Log, Stretch, number, printed_rate, rounding

# The benchmark's default number of batches per iteration; its output does not contain it.
_BATCHES = 10
_ITERATION = re.compile(r"Iter #(\d{1,12}): ([-+.\w]{1,64}) img/sec per (GPU|CPU)", re.ASCII)
_SYNTHETIC_BEGUN = re.compile(r"Iter #\d{1,12}", re.ASCII)
_STATED = {
    "network": re.compile(r"^Model: (\S{1,256})"),
    "batch_per_device": re.compile(r"^Batch size: (\d{1,12})\s*$", re.ASCII),
    "devices": re.compile(r"^Number of [GC]PUs?: (\d{1,12})", re.ASCII),
}
_TOTAL = re.compile(r"Total img/sec on (\d{1,12}) [GC]PU\(s\): ([-+.\w]{1,64})", re.ASCII)


def synthetic_rates(line: Line) -> list[Stretch]:
    """Return the interval that a line of the benchmark prints."""
    found = _ITERATION.search(line.text)
    return [printed_rate(line, (int(found[1]),), found[2])] if found else []


def read_synthetic(lines: Iterable[Line]) -> Log:
    """Read the benchmark's output; the throughput is that of rank 0's one device."""
    log = Log()
    for line in log.over(lines):
        found = _ITERATION.search(line.text)
        if found:
            log.stated["device"] = found[3].lower()
            log.take(*(replace(one, steps=_BATCHES) for one in synthetic_rates(line)))
        elif _SYNTHETIC_BEGUN.search(line.text):
            log.spoilt.append(line.number)
        elif total := _TOTAL.search(line.text):
            log.stated["devices"] = int(total[1])
            log.total = number(total[2])
        else:
            for name, pattern in _STATED.items():
                if found := pattern.match(line.text):
                    log.stated[name] = found[1] if name == "network" else int(found[1])

            if "byteps" in line.text.lower():  # its benchmark prints the same lines
                log.stated["kvstore"] = BYTEPS
    return log.whole()


SYNTHETIC_FORMAT = Format(
    name="horovod-synthetic",
    title="Horovod's synthetic benchmark",
    found=lambda text: "img/sec" in text and _ITERATION.search(text),
    read=read_synthetic,
    of="one-device",
    warmup=0,
    mode="synthetic",
    kvstore=HOROVOD,
    single=True,
    rates=synthetic_rates,
    begun=_SYNTHETIC_BEGUN.search,
    places=False,
    steps=_BATCHES,
)

_NUMBER = r"([-+]?(?:\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,9})?|nan|inf))"
_FIRST, _GAP, _END = r"\s{0,32}(?:[-*]\s{1,32})?", r"\s{1,32}", r"\s{0,32}$"
_ROW = re.compile(_FIRST + r"(\d{1,12})" + f"{_GAP}{_NUMBER}" * 5 + _END, re.ASCII)
_BEGUN = re.compile(rf"{_FIRST}\d{{1,30}}(?:{_GAP}[-+.\deE]{{1,64}}){{1,5}}{_END}", re.ASCII)
_HEADER = re.compile(rf"\bStep{_GAP}Epoch{_GAP}Speed\b", re.ASCII)
_MOST_EPOCHS = 1e6
_FINISHED = re.compile(r"\bFinished in ([.\d]{1,64})", re.ASCII)


def rates(line: Line) -> list[Stretch]:
    """Return the interval that a row prints."""
    row = _ROW.match(line.text)
    return [printed_rate(line, (int(row[1]),), row[3])] if row else []


def read(lines: Iterable[Line]) -> Log:
    """Read such a log; throughput is of the whole job. Ignore rows before a header."""
    log = Log()
    rows: list[tuple[int, float]] = []
    rounded = 0.0
    for line in log.over(lines):
        if _HEADER.search(line.text):
            log.stretches, log.spoilt = [], []
            continue
        row = _ROW.match(line.text)
        if row:
            rows.append((int(row[1]), number(row[2])))
            rounded = rounding(row[2])
            log.take(*rates(line))
        elif _BEGUN.match(line.text):
            log.spoilt.append(line.number)
        elif finished := _FINISHED.search(line.text):
            log.stated["elapsed_seconds"] = number(finished[1])
            log.stated["epochs"] = epochs = _epochs(rows)
            if epochs:
                step, epoch = rows[-1]
                log.stated["steps"] = round(epochs * step / epoch)
                log.stated["steps_rounding"] = rounded
    return log.whole()


def _epochs(rows: Sequence[tuple[int, float]]) -> int:
    """Return the number of epochs of a finished job; 0 if unclear from its last rows.

    The job ended at a whole epoch, before the step of the next row.
    """
    if len(rows) < 2:
        return 0
    (before, _), (step, epoch) = rows[-2:]
    if not (math.isfinite(epoch) and 0 < epoch < _MOST_EPOCHS):
        return 0
    whole = math.ceil(epoch)
    return whole if (whole - epoch) * step / epoch <= step - before else 0


FORMAT = Format(
    name="horovod",
    title="Horovod's Step Epoch Speed table",
    found=lambda text: "Speed" in text and _HEADER.search(text),
    read=read,
    of="job",
    warmup=2,
    mode="real",
    kvstore=HOROVOD,
    single=True,
    rates=rates,
    begun=_BEGUN.match,
)
