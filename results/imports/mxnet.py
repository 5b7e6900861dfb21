"""Logs of upstream's MXNet examples: both formats of its Speedometer, GluonCV's too."""

import math
import re
from collections.abc import Iterable, Iterator

from bench.errors import is_whole
from results.imports.lines import Line
from results.imports.log import Format, Log, Reading, Stretch, number

_SPEED = re.compile(
    r"(?:Node\[(?P<node>\d+)\]\s*)?Epoch\s?\[(?P<epoch>\d{1,12})\]\s*,?\s*"
    r"Batch\s*\[(?:(?P<begin>\d{1,12})-)?(?P<batch>\d{1,12})\]\s*"
    r"Speed:\s*(?P<speed>[-+.\w]+)\s*(?:samples|images)/s"
)
_BEGUN = re.compile(r"Speed:|Epoch\s?\[\d+\]\s*,?\s*Bat[ch]*\s*\[?[\d-]*\]?\s*$")
_ACCURACY = re.compile(
    r"(?:Node\[(?P<node>\d+)\]\s*)?Epoch\s?\[\d+\]\s*Validation-(?:top-?1-?acc\w*|accuracy)"
    r"\s*=\s*(?P<value>[-+.\w]+)"
)
_COST = re.compile(r"Epoch\s?\[(?P<epoch>\d{1,12})\]\s*Time cost\s*=\s*(?P<seconds>[-+.\w]+)")
_STARTED = "start with arguments"
_ARGUMENT = re.compile(r"(\w+)=('[^']*'|\"[^\"]*\"|[^,()]+)")


def read(lines: Iterable[Line]) -> Log:
    """What such a log says; a speed is of one worker."""
    reading = Reading()
    for line in reading.over(lines):
        if _STARTED in line.text:
            arguments = {name: value.strip("'\" ") for name, value in _ARGUMENT.findall(line.text)}
            reading.said.update(dict(_said(arguments)))
        found = list(_SPEED.finditer(line.text))
        for one in found:
            reading.take(_stretch(line, one))
        if len(_BEGUN.findall(line.text)) > len(found):
            reading.spoilt.append(line.number)
        if cost := _COST.search(line.text):
            reading.epochs.append((int(cost["epoch"]), number(cost["seconds"])))
        accuracy = _ACCURACY.search(line.text)
        if accuracy and (accuracy["node"] or "0") == "0":
            value = number(accuracy["value"])
            reading.accuracy = value if math.isfinite(value) else reading.accuracy
    return reading.log()


def _stretch(line: Line, found: re.Match[str]) -> Stretch:
    batch, begin = int(found["batch"]), found["begin"]
    return Stretch(
        worker=found["node"] or line.worker,
        place=(int(found["epoch"]), batch),
        steps=max(batch - int(begin), 0) if begin else 0,
        rate=number(found["speed"]),
        at=line.at,
        line=line.number,
    )


def _said(arguments: dict[str, str]) -> Iterator[tuple[str, object]]:
    """What the arguments of upstream's train_imagenet.py come to."""
    network, layers = arguments.get("network", ""), arguments.get("num_layers", "")
    layered = network in {"resnet", "vgg"} and layers.isdecimal()
    if network:
        yield "network", f"{network}-{layers}" if layered else network
    if is_whole(arguments.get("batch_size", "")):
        yield "worker_batch", int(arguments["batch_size"])
    if store := arguments.get("kv_store"):
        yield "kvstore", store
    if dtype := arguments.get("dtype"):
        yield "dtype", dtype
    if "gpus" in arguments:
        gpus = arguments["gpus"]
        cpu = gpus in {"None", ""}
        yield "device", "cpu" if cpu else "gpu"
        yield "devices_per_worker", 1 if cpu else len(gpus.split(","))
    if "benchmark" in arguments:
        yield "mode", "synthetic" if arguments["benchmark"] in {"1", "True"} else "real"


FORMAT = Format(
    name="mxnet",
    title="MXNet's Speedometer",
    found=_SPEED.search,
    read=read,
    of="workers",
    warmup=1,
    mode="real",
)
