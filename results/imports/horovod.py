"""Logs of AWS's Horovod training script: Step Epoch Speed Loss FinLoss LR."""

import math
import re
from collections.abc import Iterable, Sequence

from results.imports.lines import Line
from results.imports.log import Format, Log, Reading, Stretch, number, rounding

_NUMBER = r"([-+]?(?:\d{1,30}(?:\.\d{0,30})?(?:[eE][-+]?\d{1,9})?|nan|inf))"
_FIRST, _GAP, _END = r"\s{0,32}(?:[-*]\s{1,32})?", r"\s{1,32}", r"\s{0,32}$"
_ROW = re.compile(_FIRST + r"(\d{1,12})" + f"{_GAP}{_NUMBER}" * 5 + _END, re.ASCII)
_BEGUN = re.compile(rf"{_FIRST}\d{{1,30}}(?:{_GAP}[-+.\deE]{{1,64}}){{1,5}}{_END}", re.ASCII)
_HEADER = re.compile(rf"\bStep{_GAP}Epoch{_GAP}Speed\b", re.ASCII)
_MOST_EPOCHS = 1e6
_FINISHED = re.compile(r"\bFinished in ([.\d]{1,64})", re.ASCII)


def read(lines: Iterable[Line]) -> Log:
    """What such a log says; a speed is of the whole job. Rows before a header are another's."""
    reading = Reading()
    rows: list[tuple[int, float]] = []
    rounded = 0.0
    for line in reading.over(lines):
        if _HEADER.search(line.text):
            reading.stretches, reading.spoilt = [], []
            continue
        row = _ROW.match(line.text)
        if row:
            rows.append((int(row[1]), number(row[2])))
            rounded = rounding(row[2])
            reading.take(
                Stretch(
                    worker=line.worker,
                    place=(int(row[1]),),
                    rate=number(row[3]),
                    rounding=rounding(row[3]),
                    line=line.number,
                )
            )
        elif _BEGUN.match(line.text):
            reading.spoilt.append(line.number)
        elif finished := _FINISHED.search(line.text):
            reading.said["elapsed_seconds"] = number(finished[1])
            reading.said["epochs"] = epochs = _epochs(rows)
            if epochs:
                step, epoch = rows[-1]
                reading.said["steps"] = round(epochs * step / epoch)
                reading.said["steps_rounding"] = rounded
    return reading.log()


def _epochs(rows: Sequence[tuple[int, float]]) -> int:
    """How many epochs a finished job trained; 0 if its last rows do not say it.

    It ended at a whole epoch, before the step of the row that would have been next.
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
    kvstore="horovod",
    single=True,
)
