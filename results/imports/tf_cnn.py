"""Output of tf_cnn_benchmarks, whose images/sec is a mean from the first step on."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.errors import SpecError, quoted
from results.imports.arguments import HOROVOD
from results.imports.lines import Line
from results.imports.log import Format, Log, Stretch, number, printed_rate

# With what follows the number, so that none is taken that is torn.
_STEP = re.compile(r"(?<![\w.])(\d{1,12})\s{1,8}images/sec: ([-+.\w]{1,64})\s{1,8}\+/-", re.ASCII)
_BEGUN = re.compile(r"(?<![\w.])\d{1,12}\s{1,8}images/", re.ASCII)
_TOTAL = re.compile(r"total images/sec: ([-+.\w]{1,64})", re.ASCII)
# Some collections of logs have lost the blanks in front of "per device". In front of a line
# stand "... benchmark_cnn.py:99] ", "INFO|2018-01-30T16:01:05|/opt/launcher.py|27| " and the
# "2018-09-04T11:27:29.624841024Z " of kubectl.
_GLOBAL = re.compile(
    r"(?:^|\] |\| |\dZ )\s{0,8}Batch size:\s{1,8}(\d{1,12})(?:\.0{0,9})? global", re.ASCII
)
_PER_DEVICE = re.compile(r"(?:^|\]|\||\dZ )\s{0,32}(\d{1,12})(?:\.0{0,9})? per device", re.ASCII)
_FIELD = re.compile(
    r"(?:^|\] |\| |\dZ )\s{0,8}(Model|Dataset|Mode|Variables|Devices):\s{1,16}(.+)$", re.ASCII
)
_DEVICE = re.compile(r"[cg]pu:\d+", re.IGNORECASE)


def read(lines: Iterable[Line]) -> Log:
    """What such output says; its means are turned into the stretches between them.

    A process prints the speed of its own images; the total at the end is of the whole job.
    SpecError if it is not of training.
    """
    log = Log()
    for line in log.over(lines):
        if found := _STEP.search(line.text):
            log.take(printed_rate(line, (int(found[1]),), found[2]))
        elif _BEGUN.search(line.text):
            log.spoilt.append(line.number)
        elif found := _TOTAL.search(line.text):
            total = number(found[1])
            log.total = log.total or (total if total > 0 else 0.0)
        else:
            _header(log, line.text)
    said = log.said
    # The devices of the job, if the two batches say so; else those that are listed.
    whole, part = said.get("global_batch", 0), said.get("batch_per_device", 0)
    if devices := whole // part if part and whole % part == 0 else said.get("listed", 0):
        said["devices"] = devices
    means = _of_one_process(log)
    _processes(log, means)
    log.stretches = []
    for one in between(means):
        log.take(one)
    return log.whole()


def _of_one_process(log: Log) -> list[Stretch]:
    """The means of the first process; under Horovod all print theirs, with or without a name."""
    first = log.stretches[0].worker if log.stretches else ""
    means = [one for one in log.stretches if one.worker == first]
    times = Counter(one.place for one in means)
    most = max(times.values(), default=0)
    ranks = log.said.get("devices", 1) if log.said.get("kvstore") == HOROVOD else 1
    if most > ranks:
        again = next(one for one in means if times[one.place] > ranks)
        raise SpecError(
            f"line {again.line}: step {again.place[-1]} stands there {times[again.place]} times. "
            f"Cut the log into one file per run and process"
        )
    if len(set(times.values())) > 1:  # lines were lost: whose they were cannot be known
        means = [one for one in means if times[one.place] == most]
    return sorted({one.place: one for one in reversed(means)}.values(), key=lambda one: one.place)


def _processes(log: Log, means: Sequence[Stretch]) -> None:
    """How many processes there are, each of which prints the speed of its own images."""
    said = log.said
    listed, of_worker = said.pop("listed", 0), said.pop("of_worker", False)
    ratio = log.total / means[-1].rate if log.total and means else 0.0
    devices = said.get("devices", 0)
    if said.get("kvstore") == HOROVOD:
        said["shares"] = devices or max(1, round(ratio))
    elif of_worker and devices in {0, listed} and not 0.8 < ratio < 1.25:  # it prints for several
        # What older versions call global is a worker's, and so is what is listed.
        for name in ("global_batch", "devices"):
            said.pop(name, None)
        said["devices_per_worker"] = max(1, listed)
        said["shares"] = 0
        said["ratio"] = ratio
    elif of_worker and listed and devices % listed == 0:
        said["shares"] = devices // listed
    else:
        said["shares"] = max(1, round(ratio))


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


def _header(log: Log, text: str) -> None:
    said = log.said
    if found := _GLOBAL.search(text):
        _say(said, "global_batch", int(found[1]))
    elif found := _PER_DEVICE.search(text):
        _say(said, "batch_per_device", int(found[1]))
    elif found := _FIELD.search(text):
        name, value = found[1], found[2].strip()
        if name == "Mode" and "train" not in value.lower():
            raise SpecError(f"expected a log of training, got one whose mode is {quoted(value)}")
        for key, one in _field(name, value).items():
            _say(said, key, one)


def _say(said: dict[str, object], name: str, value: object) -> None:
    """Raises SpecError if the log says something else too: it is of two jobs."""
    if said.setdefault(name, value) != value and name not in {"of_worker", "listed"}:
        raise SpecError(
            f"it says {said[name]} and {value} ({name.replace('_', ' ')}). Cut the log into one "
            f"file per run"
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
)
