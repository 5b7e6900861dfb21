"""Output of Horovod's synthetic benchmarks (TensorFlow, Keras, PyTorch, MXNet)."""

import re
from collections.abc import Iterable

from results.imports.arguments import BYTEPS
from results.imports.lines import Line
from results.imports.log import Format, Log, Reading, Stretch, number, rounding

# What the benchmark times at once, unless it is told otherwise; its output does not say.
_BATCHES = 10
_ITERATION = re.compile(r"Iter #(\d{1,12}): ([-+.\w]{1,64}) img/sec per (GPU|CPU)", re.ASCII)
_BEGUN = re.compile(r"Iter #\d{1,12}", re.ASCII)
_SAID = {
    "network": re.compile(r"^Model: (\S{1,256})"),
    "batch_per_device": re.compile(r"^Batch size: (\d{1,12})\s*$", re.ASCII),
    "devices": re.compile(r"^Number of [GC]PUs?: (\d{1,12})", re.ASCII),
}
_TOTAL = re.compile(r"Total img/sec on (\d{1,12}) [GC]PU\(s\): ([-+.\w]{1,64})", re.ASCII)


def read(lines: Iterable[Line]) -> Log:
    """What such output says; a speed is rank 0's, of its one device."""
    reading = Reading()
    for line in reading.over(lines):
        found = _ITERATION.search(line.text)
        if found:
            reading.said["device"] = found[3].lower()
            reading.take(
                Stretch(
                    worker=line.worker,
                    place=(int(found[1]),),
                    steps=_BATCHES,
                    rate=number(found[2]),
                    rounding=rounding(found[2]),
                    line=line.number,
                )
            )
        elif _BEGUN.search(line.text):
            reading.spoilt.append(line.number)
        elif total := _TOTAL.search(line.text):
            reading.said["devices"] = int(total[1])
            reading.total = number(total[2])
        else:
            reading.said.update(_header(line.text))
            if "byteps" in line.text.lower():  # its benchmark prints the same lines
                reading.said["kvstore"] = BYTEPS
    return reading.log()


def _header(text: str) -> dict[str, object]:
    found = {name: pattern.match(text) for name, pattern in _SAID.items()}
    return {
        name: one[1] if name == "network" else int(one[1]) for name, one in found.items() if one
    }


FORMAT = Format(
    name="horovod-synthetic",
    title="Horovod's synthetic benchmark",
    found=lambda text: "img/sec" in text and _ITERATION.search(text),
    read=read,
    of="one-device",
    warmup=0,
    mode="synthetic",
    kvstore="horovod",
    single=True,
)
