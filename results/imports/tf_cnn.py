"""Output of tf_cnn_benchmarks, whose images/sec is a mean from the first step on."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from results.imports.lines import Line
from results.imports.log import Format, Log, Reading, Stretch, number

_STEP = re.compile(r"(?<![\w.])(\d{1,12})\s+images/sec: ([-+.\w]+)(?=\s|$)")
_BEGUN = re.compile(r"(?<![\w.])\d+\s+images/")
_TOTAL = re.compile(r"total images/sec: ([-+.\w]+)")
_GLOBAL = re.compile(r"(?:^|\] )Batch size:\s+(\d{1,12})(?:\.0*)? global")
_PER_DEVICE = re.compile(r"(?:^|\])\s+(\d{1,12})(?:\.0*)? per device")
_ONE_PROCESS = {"replicated", "independent", None}
_FIELD = re.compile(r"(?:^|\] )(Model|Dataset|Mode|Variables|Devices):\s+(.+)$")


def read(lines: Iterable[Line]) -> Log:
    """What such output says; its means are turned into the stretches between them.

    A process tells the speed of its own images, so the total at the end tells how many there are.
    """
    reading = Reading()
    total = 0.0
    for line in reading.over(lines):
        if found := _STEP.search(line.text):
            step = int(found[1])
            mean = number(found[2])
            reading.take(Stretch(worker=line.worker, place=(step,), rate=mean, line=line.number))
        elif _BEGUN.search(line.text):
            reading.spoilt.append(line.number)
        elif found := _TOTAL.search(line.text):
            total = number(found[1])
        else:
            _header(reading, line.text)
    first = reading.stretches[0].worker if reading.stretches else ""
    means = [one for one in reading.stretches if one.worker == first]
    if total > 0 and means:
        reading.said["shares"] = max(1, round(total / means[-1].rate))
    elif reading.said.get("kvstore") not in _ONE_PROCESS:
        reading.notes.append("no total at its end: its speeds are taken for those of the whole job")
    return replace(reading.log(), stretches=tuple(between(means)))


def between(means: Sequence[Stretch]) -> list[Stretch]:
    """The stretches between means since the first step: with n1 steps at r1 and n2 at r2 images a
    second, the steps between took n2 / r2 - n1 / r1 times the batch.

    One that rounding leaves no time for is taken together with the next.
    """
    found = []
    before, spent = 0, 0.0
    for one in means:
        step, time = one.place[-1], one.place[-1] / one.rate
        if before and step <= before:
            found.append(one)  # another run in the same file; who puts windows together says so
        elif time > spent:
            rate = (step - before) / (time - spent)
            found.append(replace(one, steps=step - before, rate=rate))
            before, spent = step, time
    return found


def _header(reading: Reading, text: str) -> None:
    said = reading.said
    if found := _GLOBAL.search(text):
        said["global_batch"] = int(found[1])
    elif found := _PER_DEVICE.search(text):
        said["batch_per_device"] = int(found[1])
    elif found := _FIELD.search(text):
        said.update(_field(found[1], found[2].strip()))
        if found[1] == "Mode" and "train" not in found[2].lower():
            reading.notes.append(f"not training: its mode is {found[2].strip()}")
    whole, part = said.get("global_batch", 0), said.get("batch_per_device", 0)
    if part and whole and whole % part == 0:
        said["devices"] = whole // part


def _field(name: str, value: str) -> dict[str, object]:
    if name == "Model":
        return {"network": value}
    if name == "Dataset":
        return {"mode": "synthetic" if "synthetic" in value else "real"}
    if name == "Variables":
        return {"kvstore": value}
    if name == "Devices":
        return {"device": "cpu" if "cpu" in value.lower() else "gpu"}
    return {}


FORMAT = Format(
    name="tf-cnn",
    title="tf_cnn_benchmarks",
    found=_STEP.search,
    read=read,
    of="job",
    warmup=0,
    mode="synthetic",
)
