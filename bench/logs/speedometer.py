"""Logs of MXNet scripts: formats of its Speedometer, of GluonCV and of Horovod."""

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from bench.errors import SpecError, error_line
from bench.logs import mlperf
from bench.logs.arguments import BYTEPS
from bench.logs.lines import Line
from bench.logs.log import Format, Log, Stretch, number, printed_rate

# Repetitions are bounded, as in every log pattern, so that every line takes linear time.
_GAP = r"\s{0,8}"
_EPOCH = r"(?:Epoch|Iter(?:ation)?)\s?\[(?P<epoch>\d{1,12})\]"
_SPEED = re.compile(
    rf"(?:Node\[(?P<node>\d{{1,9}})\]{_GAP})?{_EPOCH}{_GAP},?{_GAP}"
    rf"(?:Rank\[(?P<rank>\d{{1,9}})\]{_GAP})?"
    rf"Batch{_GAP}\[(?:(?P<begin>\d{{1,12}})-)?(?P<batch>\d{{1,12}})\]{_GAP}"
    rf"Speed:{_GAP}(?P<speed>[-+.\w]{{1,64}}){_GAP}(?:samples|images)/s(?:ec)?\b"
    r"(?:\s{1,8}(?P<metric>[^\s=]{1,64})=)?",
    re.ASCII,
)
_BEGUN = re.compile(
    rf"Speed:|Epoch\s?\[\d{{1,12}}\]{_GAP},?{_GAP}Bat[ch]{{0,2}}{_GAP}\[?[\d-]{{0,30}}\]?{_GAP}$",
    re.ASCII,
)
_ACCURACY = re.compile(
    rf"(?:Node\[(?P<node>\d{{1,9}})\]{_GAP})?Epoch\s?\[\d{{1,12}}\]{_GAP}"
    rf"Validation-(?:top-?1-?acc\w{{0,16}}|accuracy){_GAP}={_GAP}(?P<value>[-+.\w]{{1,64}})",
    re.ASCII,
)
# Seconds with decimals; MXNet for Scala, and with it Clojure, prints whole milliseconds.
_COST = re.compile(rf"{_EPOCH}{_GAP}Time cost{_GAP}={_GAP}(?P<time>[-+.\w]{{1,64}})", re.ASCII)
_WORDS = ("Speed:", "speed:", "Epoch", "Iter", "Start training", ":::MLL", "BytePS", "byteps")
# The devices of a process, printed by Module.fit.
_DEVICES = re.compile(r"Start training with \[((?:[cg]pu\(\d{1,9}\)(?:, )?){1,1000})\]", re.ASCII)
# Translation tools such as Sockeye use a Speedometer of sentences.
_NO_IMAGES = re.compile(r"samples/sec\s{1,8}[\d.]{1,64}\s{1,8}tokens/sec", re.ASCII)
# A metric of text models, on the throughput line or a separate one.
_PERPLEXITY = re.compile(rf"\b(?:perplexity|ppl)\b{_GAP}[=:]?{_GAP}\d", re.IGNORECASE)
# Horovod's and GluonCV's Horovod scripts, after each epoch; some print no other throughput.
_EPOCH_SPEED = re.compile(
    rf"{_EPOCH}\s{{1,8}}Speed:{_GAP}(?P<speed>[-+.\w]{{1,64}}){_GAP}samples/s(?:ec)?\b", re.ASCII
)
_EPOCH_STEPS = re.compile(
    rf"{_EPOCH}{_GAP}(?:Rank\[\d{{1,9}}\]{_GAP})?Batch\s?\[(?P<steps>\d{{1,12}})\]{_GAP}Time cost=",
    re.ASCII,
)
# GluonCV's scripts, after each epoch.
_WHOLE = re.compile(
    r"\[Epoch (?P<epoch>\d{1,12})\] speed: (?P<speed>[-+.\w]{1,64}) samples/sec\s{1,8}time cost: "
    r"(?P<seconds>[-+.\w]{1,64})",
    re.ASCII,
)


def _interval(line: Line, found: re.Match[str]) -> Stretch:
    batch, begin = int(found["batch"]), found["begin"]
    steps = max(batch - int(begin), 0) if begin else 0
    place = int(found["epoch"]), batch
    return printed_rate(line, place, found["speed"], steps, found["node"] or found["rank"])


def rates(line: Line) -> list[Stretch]:
    """Return the intervals that a line prints, one per worker if lines are joined."""
    return [_interval(line, one) for one in _SPEED.finditer(line.text)]


def read(lines: Iterable[Line]) -> Log:
    """Read such a log; a throughput is that of one worker."""
    reader = _Reader()
    for line in reader.log.over(lines):
        if any(word in line.text for word in _WORDS):  # patterns take longer
            reader.take_speeds(line)
            reader.take_epochs(line)
            reader.take_facts(line)
    return reader.whole()


class _Reader:
    """State of reading a log.

    wholes    throughput of epochs, as printed
    by_epoch  the same as intervals, for a log without others
    steps     steps of each epoch, by its number
    listed    device lists that processes print
    metrics   number of lines of each metric in a window
    """

    def __init__(self) -> None:
        self.log = Log()
        self._metrics: dict[tuple[object, ...], dict[str, int]] = {}
        self._wholes: list[float] = []
        self._by_epoch: list[Stretch] = []
        self._steps: dict[str, int] = {}
        self._listed: set[str] = set()

    def take_speeds(self, line: Line) -> None:
        """Collect the throughput on a line, of batches or of an epoch."""
        found = list(_SPEED.finditer(line.text))
        if found and _NO_IMAGES.search(line.text):
            where = f"line {line.number}"
            raise SpecError(error_line(where, expected="throughput in images", got="tokens"))
        if _PERPLEXITY.search(line.text):
            got = "sentences (perplexity is a metric of text)"
            where = f"line {line.number}"
            raise SpecError(error_line(where, expected="throughput in images", got=got))
        for one in found:
            stretch = _interval(line, one)
            if self._is_new(stretch, one):
                self.log.take(replace(stretch, at=line.at))
        if epoch := _EPOCH_SPEED.search(line.text):
            steps = self._steps.get(epoch["epoch"], 1)
            whole = printed_rate(line, (int(epoch["epoch"]), steps), epoch["speed"], steps)
            self._by_epoch.append(replace(whole, at=line.at))
        elif len(_BEGUN.findall(line.text)) > len(found):
            self.log.spoilt.append(line.number)

    def _is_new(self, stretch: Stretch, found: re.Match[str]) -> bool:
        """Return whether a line is a new window; old Speedometers print one per metric."""
        counts = self._metrics.setdefault((stretch.worker, stretch.place, found["speed"]), {})
        windows = max(counts.values(), default=0)
        metric = found["metric"] or ""
        counts[metric] = counts.get(metric, 0) + 1
        return counts[metric] > windows

    def take_epochs(self, line: Line) -> None:
        """Collect an epoch's steps, seconds and validation accuracy."""
        if ended := _EPOCH_STEPS.search(line.text):
            self._steps[ended["epoch"]] = int(ended["steps"])
        if cost := _COST.search(line.text):
            unit = 0.001 if cost["time"].isdecimal() else 1.0
            self.log.epochs.append((int(cost["epoch"]), unit * number(cost["time"])))
        if whole := _WHOLE.search(line.text):
            self.log.epochs.append((int(whole["epoch"]), number(whole["seconds"])))
            self._wholes.append(number(whole["speed"]))
        accuracy = _ACCURACY.search(line.text)
        if accuracy and (accuracy["node"] or "0") == "0":
            value = number(accuracy["value"])
            self.log.accuracy = value if math.isfinite(value) else self.log.accuracy

    def take_facts(self, line: Line) -> None:
        """Collect the settings on a line."""
        mlperf.header(self.log, line.text)
        if "byteps" in line.text.lower():  # BytePS ignores the kvstore of the arguments
            self.log.stated["kvstore"] = BYTEPS
        if devices := _DEVICES.search(line.text):
            self._listed.add(devices[1])

    def whole(self) -> Log:
        """Return the complete log."""
        wholes = self._wholes
        if not self.log.stretches:
            for stretch in self._by_epoch:
                self.log.take(stretch)
        elif len({one.worker for one in self._by_epoch}) == 1:
            wholes = [*wholes, *(one.rate for one in self._by_epoch if one.rate > 0)]
        after = wholes[1:] or wholes  # the first epoch includes start-up work
        self.log.total = sum(after) / len(after) if after else 0.0
        log = self.log.whole()
        if len(self._listed) == 1 and log.stated.get("kvstore") != "horovod":
            (names,) = self._listed
            own = {"devices_per_worker": names.count("("), "device": names[:3]}
            log.stated = {**own, **log.stated}
        return log


FORMAT = Format(
    name="mxnet",
    title="MXNet's Speedometer",
    found=lambda text: "Speed:" in text and (_SPEED.search(text) or _EPOCH_SPEED.search(text)),
    read=read,
    of="workers",
    warmup=1,
    mode="real",
    rates=rates,
    begun=lambda text: _BEGUN.search(text) and not _EPOCH_SPEED.search(text),
    steps=20,
)
