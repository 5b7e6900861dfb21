"""Arguments that training scripts print as they start: lines with Namespace(...)."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench.errors import SpecError, error_line, is_whole
from bench.logs.lines import Line

# kvstores of jobs with one device per process.
HOROVOD = "horovod"
BYTEPS = "byteps"
# Python 2 writes u'' for text.
_ARGUMENT = re.compile(
    r"\b(\w{1,64})=(?:[ub](?=['\"]))?('[^']{0,512}'|\"[^\"]{0,512}\"|<[^>]{0,512}>|[^,()]+)",
    re.ASCII,
)
_NAMESPACE = "Namespace("
# Pixels or classes.
_MOST = 1_000_000
# Largest share of Namespace lines that may be torn by interleaved output.
_TORN = 0.05
# Image shape and classes of named data sets, unless the arguments give a size.
_DATASETS = {
    "cifar10": ((3, 32, 32), 10),
    "cifar100": ((3, 32, 32), 100),
    "mnist": ((1, 28, 28), 10),
}
_NODE = re.compile(r"\bNode\[(\d{1,9})\]|\bRank\[(\d{1,9})\]", re.ASCII)
# Suffixes of names of data types, in search order.
_DTYPES = {
    "bfloat16": ("bfloat16", "bf16"),
    "float16": ("float16", "fp16", "half", "16"),
    "float32": ("float32", "fp32", "float", "single", "32"),
}
_BATCHES = ("per_batch_size", "batch_size_per_gpu", "batch_size_per_device")
_SWITCHES = ("fp16", "use_fp16", "half", "amp", "use_amp")
_SIXTEEN = re.compile(
    r"\b(?:fp16|float16|bf16|bfloat16|half[- ]precision|mixed[- ]precision|use_(?:fp16|amp))\b",
    re.IGNORECASE,
)
_NOT_SIXTEEN = re.compile(
    r"(?:fp16|amp|half|mixed_precision)[\"']?\s{0,8}[=:]\s{0,8}(?:False|None|0)\b|fp16[-_]all-?reduce"
    r"|\bno[-_](?:fp16|amp)\b",
    re.IGNORECASE,
)
# In a command line printed in the log.
_OPTION = re.compile(
    r"--dtype[= ]['\"]?(?P<dtype>\w{1,64})|--(?:use_)?fp16(?:[= ](?:True|true|1))?(?=[\s'\",\\]|$)"
)
# A command of MXNet's or GluonCV's scripts printed in the log, and its launcher.
_COMMAND = re.compile(r"\btrain_(?:imagenet|cifar10|mnist)\.py\s(.{1,4096})")
_OF_COMMAND = re.compile(
    r"--([a-z][a-z-]{1,32})[= ]\s{0,8}['\"]?([\w.,/~][\w.,/~:-]{0,255})", re.ASCII
)
_LAUNCH = re.compile(r"\blaunch\.py\s.{0,512}?(?:-n|--num-workers)[= ]\s{0,8}(\d{1,6})\s", re.ASCII)
# Upstream's networks with a depth, required if not printed; the others print a --num-layers that
# they do not use.
_LAYERED = {"resnet", "resnet-v1", "resnext", "vgg"}


class Arguments:
    """Arguments that a log's scripts print, rank by rank."""

    def __init__(self) -> None:
        self._lines: list[dict[str, str]] = []
        self._ranks: set[str] = set()
        self._options: set[str] = set()
        self._commands: dict[str, dict[str, str]] = {}
        self._launched: set[int] = set()
        self._sixteen = 0

    def read(self, line: Line) -> None:
        """Collect the arguments in a line, if it has any."""
        if _NAMESPACE in line.text:
            values = _ARGUMENT.findall(line.text)
            found = {name: value.strip("'\" ") for name, value in values}
            self._lines.append(found)
            # GluonCV trains on videos too, whose samples are clips.
            frames = max(_size(found.get(name, "")) for name in ("new_length", "num_segments"))
            if frames > 1:
                raise SpecError(
                    error_line(
                        f"line {line.number}",
                        expected="throughput in images",
                        got=f"clips of {frames} frames",
                    )
                )
            node = _NODE.search(line.text)
            self._ranks.add((node[1] or node[2]) if node else line.worker)
            return
        if "--" in line.text:
            self._read_command(line.text)
        if not self._sixteen and ("16" in line.text or "recision" in line.text):
            mentioned = _SIXTEEN.search(line.text) and not _NOT_SIXTEEN.search(line.text)
            self._sixteen = line.number if mentioned else 0

    def _read_command(self, text: str) -> None:
        if option := _OPTION.search(text):
            self._options.add(_dtype({"dtype": option["dtype"] or "float16"}))
        if command := _COMMAND.search(text):
            values = {name.replace("-", "_"): one for name, one in _OF_COMMAND.findall(command[1])}
            self._commands[repr(sorted(values.items()))] = values
            if launch := _LAUNCH.search(text):
                self._launched.add(int(launch[1]))

    def stated(self) -> dict[str, Any]:
        """Return the point's settings from the arguments; SpecError if ranks differ."""
        found = _alike([dict(_stated(one)) for one in self._lines])
        if not self._lines and len(self._commands) == 1:
            (values,) = self._commands.values()
            found = dict(_stated(values))
            if len(self._launched) == 1 and found.get("kvstore", "").startswith("dist"):
                (found["workers"],) = self._launched
        if "dtype" not in found and len(self._options) == 1:
            (found["dtype"],) = self._options
        if "dtype" not in found and self._sixteen:
            found["sixteen"] = self._sixteen
        count = len(self._ranks)
        if count > 1 and self._ranks == {str(number) for number in range(count)}:
            found["workers"] = count
        return found

    def integer(self, name: str) -> int:
        """Return a whole number from the first rank's arguments; 0 if missing."""
        text = self._lines[0].get(name, "") if self._lines else ""
        return int(text) if is_whole(text) else 0


def _alike(stated: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the settings common to all lines; SpecError if too many lines differ."""
    found = {}
    for name in dict.fromkeys(name for one in stated for name in one):
        counts = Counter(one[name] for one in stated if name in one)
        (value, times), *others = counts.most_common()
        if others and len(stated) - times > _TORN * len(stated):
            raise SpecError(
                error_line(
                    "Namespace(...) lines",
                    expected=f"one {name.replace('_', ' ')}",
                    got=f"{_plain(value)} and {_plain(others[0][0])}",
                    fix="Cut the log into one file per job",
                )
            )
        found[name] = value
    return found


def _plain(value: object) -> str:
    """Return a setting as text: an image shape as '3,224,224'."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _stated(arguments: dict[str, str]) -> Iterator[tuple[str, object]]:
    """Yield the settings in arguments of upstream's, GluonCV's and similar scripts."""
    store = arguments.get("kv_store") or arguments.get("kvstore") or ""
    if arguments.get("horovod") == "True":
        store = HOROVOD
    if store not in {"", "None"}:
        yield "kvstore", store
    gluon = "model" in arguments and "network" not in arguments
    yield from _network(arguments)
    each = (arguments.get(name, "") for name in _BATCHES)
    if own := next((int(one) for one in each if is_whole(one) and int(one)), 0):
        yield "batch_per_device", own
    elif is_whole(text := arguments.get("batch_size", "")) and int(text):
        yield "batch_per_device" if gluon else "worker_batch", int(text)
    if dtype := _dtype(arguments):
        yield "dtype", dtype
    if store != HOROVOD:  # with Horovod, each rank uses one of the listed devices
        yield from _devices(arguments)
    elif arguments.get("num_gpus") == "0":
        yield "device", "cpu"
    elif arguments.get("gpus", "None") not in {"None", ""}:
        yield "device", "gpu"
    if "benchmark" in arguments:
        yield "mode", "synthetic" if arguments["benchmark"] in {"1", "True"} else "real"
    elif arguments.get("data_train", "None") not in {"None", ""}:
        yield "mode", "real"
    yield from _work(arguments)


def _work(arguments: dict[str, str]) -> Iterator[tuple[str, object]]:
    """Yield image shape, classes and gradient compression."""
    shape = [_size(one.strip()) for one in arguments.get("image_shape", "").split(",")]
    side = _size(arguments.get("input_size") or arguments.get("data_shape") or "")
    high, wide = _size(arguments.get("image_h", "")), _size(arguments.get("image_w", ""))
    dataset = arguments.get("dataset") or arguments.get("data_type") or ""
    usual, classes = _DATASETS.get(dataset.lower(), ((), 0))
    if len(shape) == 3 and all(shape):
        yield "image_shape", tuple(shape)
    elif side:
        yield "image_shape", (3, side, side)
    elif high and wide:
        yield "image_shape", (3, high, wide)
    elif usual or arguments.get("model", "").startswith("cifar_"):
        yield "image_shape", usual or _DATASETS["cifar10"][0]
    if classes := _size(arguments.get("num_classes", "")) or classes:
        yield "num_classes", classes
    if (compression := arguments.get("gc_type", "none")) not in {"none", "None", ""}:
        yield "gc_type", compression


def _size(text: str) -> int:
    """Parse a whole number of pixels or classes; return 0 for any other text."""
    return int(text) if is_whole(text) and int(text) <= _MOST else 0


def _network(arguments: dict[str, str]) -> Iterator[tuple[str, object]]:
    name = arguments.get("network") or arguments.get("model") or arguments.get("arch") or ""
    layers = arguments.get("num_layers", "")
    if name in {"", "None"} or (name in _LAYERED and not is_whole(layers)):
        return
    yield "network", f"{name}-{layers}" if name in _LAYERED else name
    family = re.match(r"(?:resnet|resnext|vgg)\b", name)
    if family and is_whole(layers):
        yield "also_network", f"{family[0]}-{layers}"


def _dtype(arguments: dict[str, str]) -> str:
    text = arguments.get("dtype", "").strip("<>'\" ").lower()
    for dtype, ends in _DTYPES.items():
        if text and text.endswith(ends):
            return dtype
    if text not in {"", "none"}:
        return text
    if not any(arguments.get(name) == "True" for name in _SWITCHES):
        return ""
    # On CPUs, MXNet's mixed precision uses bfloat16.
    return "bfloat16" if arguments.get("num_gpus") == "0" else "float16"


def _devices(arguments: dict[str, str]) -> Iterator[tuple[str, object]]:
    """Yield the device kind, and the number of devices of one worker."""
    count = next((arguments[name] for name in ("num_gpus", "ctx_num") if name in arguments), "")
    if is_whole(count):
        yield "device", "gpu" if int(count) else "cpu"
        yield "devices_per_worker", max(1, int(count))
    elif "gpus" in arguments:
        gpus = arguments["gpus"]
        cpu = gpus in {"None", ""}
        listed = [one for one in gpus.split(",") if one.strip()]
        if cpu or all(is_whole(one.strip()) for one in listed):
            yield "device", "cpu" if cpu else "gpu"
            yield "devices_per_worker", 1 if cpu else len(listed)
