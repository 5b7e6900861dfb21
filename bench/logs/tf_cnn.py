"""Output of tf_cnn_benchmarks, whose images/sec is the mean since the first step."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.errors import SpecError, error_line, quoted
from bench.logs.arguments import HOROVOD
from bench.logs.lines import Line
from bench.logs.log import Format, Log, Stretch, number, printed_rate

# Includes the text after the number, to reject torn lines.
_STEP = re.compile(r"(?<![\w.])(\d{1,12})\s{1,8}images/sec: ([-+.\w]{1,64})\s{1,8}\+/-", re.ASCII)
_BEGUN = re.compile(r"(?<![\w.])\d{1,12}\s{1,8}images/", re.ASCII)
_TOTAL = re.compile(r"total images/sec: ([-+.\w]{1,64})", re.ASCII)
# Some published logs lack the blanks before "per device". Line prefixes:
# "... benchmark_cnn.py:99] ", "INFO|2018-01-30T16:01:05|/opt/launcher.py|27| ", and kubectl's
# "2018-09-04T11:27:29.624841024Z ".
_GLOBAL = re.compile(
    r"(?:^|\] |\| |\dZ )\s{0,8}Batch size:\s{1,8}(\d{1,12})(?:\.0{0,9})? global", re.ASCII
)
_PER_DEVICE = re.compile(r"(?:^|\]|\||\dZ )\s{0,32}(\d{1,12})(?:\.0{0,9})? per device", re.ASCII)
_FIELD = re.compile(
    r"(?:^|\] |\| |\dZ )\s{0,8}(Model|Dataset|Mode|Variables|Devices):\s{1,16}(.+)$", re.ASCII
)
_DEVICE = re.compile(r"[cg]pu:\d+", re.IGNORECASE)


def rates(line: Line) -> list[Stretch]:
    """Return the mean since the first step that a line prints."""
    found = _STEP.search(line.text)
    return [printed_rate(line, (int(found[1]),), found[2])] if found else []


def read(lines: Iterable[Line]) -> Log:
    """Read such output; convert its means to the intervals between them.

    A process prints its own throughput; the total at the end is that of the whole job.
    Raises SpecError if the output is not of training.
    """
    log = Log()
    for line in log.over(lines):
        if found_means := rates(line):
            log.take(*found_means)
        elif _BEGUN.search(line.text):
            log.spoilt.append(line.number)
        elif found := _TOTAL.search(line.text):
            total = number(found[1])
            log.total = log.total or (total if total > 0 else 0.0)
        else:
            _header(log, line.text)
    stated = log.stated
    # The job's devices, if the two batches give them; else the listed ones.
    whole, part = stated.get("global_batch", 0), stated.get("batch_per_device", 0)
    if devices := whole // part if part and whole % part == 0 else stated.get("listed", 0):
        stated["devices"] = devices
    means = _of_one_process(log)
    _processes(log, means)
    log.stretches = []
    for one in between(means):
        log.take(one)
    return log.whole()


def _of_one_process(log: Log) -> list[Stretch]:
    """Return the means of the first process; with Horovod, all processes print theirs."""
    first = log.stretches[0].worker if log.stretches else ""
    means = [one for one in log.stretches if one.worker == first]
    times = Counter(one.place for one in means)
    most = max(times.values(), default=0)
    ranks = log.stated.get("devices", 1) if log.stated.get("kvstore") == HOROVOD else 1
    if most > ranks:
        again = next(one for one in means if times[one.place] > ranks)
        raise SpecError(
            error_line(
                f"line {again.line}",
                expected=f"step {again.place[-1]} once",
                got=f"{times[again.place]} lines",
                fix="Cut the log into one file per run and process",
            )
        )
    if len(set(times.values())) > 1:  # lines are missing, and their process is unknown
        means = [one for one in means if times[one.place] == most]
    return sorted({one.place: one for one in reversed(means)}.values(), key=lambda one: one.place)


def _processes(log: Log, means: Sequence[Stretch]) -> None:
    """Determine the number of processes, each of which prints its own throughput."""
    stated = log.stated
    listed, of_worker = stated.pop("listed", 0), stated.pop("of_worker", False)
    ratio = log.total / means[-1].rate if log.total and means else 0.0
    devices = stated.get("devices", 0)
    if stated.get("kvstore") == HOROVOD:
        stated["shares"] = devices or max(1, round(ratio))
    elif of_worker and devices in {0, listed} and not 0.8 < ratio < 1.25:  # several
        # The "global" batch of older versions is a worker's, and so are the listed devices.
        for name in ("global_batch", "devices"):
            stated.pop(name, None)
        stated["devices_per_worker"] = max(1, listed)
        stated["shares"] = 0
        stated["ratio"] = ratio
    elif of_worker and listed and devices % listed == 0:
        stated["shares"] = devices // listed
    else:
        stated["shares"] = max(1, round(ratio))


def between(means: Sequence[Stretch]) -> list[Stretch]:
    """Convert means since the first step to the intervals between them.

    With a mean of r1 images/s after n1 steps and r2 after n2, the steps between took
    n2 / r2 - n1 / r1 times the batch. An interval whose time is lost to rounding is joined with
    the next one.
    """
    found = []
    before, spent = 0, 0.0
    for one in means:
        step, time = one.place[-1], one.place[-1] / one.rate
        if before and step <= before:
            found.append(one)  # another run in the same file; rejected in windows.py
        elif time > spent:
            rate = (step - before) / (time - spent)
            found.append(replace(one, steps=step - before, rate=rate))
            before, spent = step, time
    return found


def _header(log: Log, text: str) -> None:
    stated = log.stated
    if found := _GLOBAL.search(text):
        _store(stated, "global_batch", int(found[1]))
    elif found := _PER_DEVICE.search(text):
        _store(stated, "batch_per_device", int(found[1]))
    elif found := _FIELD.search(text):
        name, value = found[1], found[2].strip()
        if name == "Mode" and "train" not in value.lower():
            raise SpecError(error_line("Mode", expected="training", got=quoted(value)))
        for key, one in _field(name, value).items():
            _store(stated, key, one)


def _store(stated: dict[str, object], name: str, value: object) -> None:
    """Store a setting; raise SpecError if the log already has another value."""
    if stated.setdefault(name, value) != value and name not in {"of_worker", "listed"}:
        raise SpecError(
            error_line(
                name.replace("_", " "),
                expected="one value",
                got=f"{stated[name]} and {value}",
                fix="Cut the log into one file per run",
            )
        )


def _field(name: str, value: str) -> dict[str, object]:
    if name == "Model":
        return {"network": value}
    if name == "Dataset":
        shape = {"image_shape": (3, 32, 32), "num_classes": 10} if "cifar10" in value else {}
        return {"mode": "synthetic" if "synthetic" in value else "real", **shape}
    if name == "Variables":
        return {"kvstore": value}
    if name == "Devices":
        listed = len(_DEVICE.findall(value))
        device = {"device": "cpu" if "cpu" in value.lower() else "gpu"} if listed else {}
        return {**device, "listed": listed, "of_worker": "/job:" in value}
    return {}


FORMAT = Format(
    name="tf-cnn",
    title="tf_cnn_benchmarks",
    found=lambda text: "images/sec" in text and _STEP.search(text),
    read=read,
    of="job",
    warmup=0,
    mode="synthetic",
    rates=rates,
    begun=_BEGUN.search,
    means=True,
    steps=10,
)
