"""The formats that are read, and which of them a file is in."""

import re
from pathlib import Path

from bench.errors import SpecError, quoted, unknown
from results.imports import horovod, mlperf, mxnet, tf_cnn, tf_inception
from results.imports.lines import lines
from results.imports.log import Format, Log

# What prints speeds comes before MLPerf's events, which such a log may have as well.
FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        mxnet.FORMAT,
        tf_inception.FORMAT,
        horovod.FORMAT,
        tf_cnn.FORMAT,
        horovod.SYNTHETIC_FORMAT,
        mlperf.FORMAT,
    )
}
# In which a log shows what it is, if it is none that is read.
_MOST_LINES = 5000
# Logs that many people have and that no format here is of.
_OTHERS = {
    "MLPerf v0.5": re.compile(r":::MLPv0\.\d"),
    "a Speedometer without epochs (MXNet for R)": re.compile(r"^\s*Batch \[\d+\] Speed: "),
    "NVIDIA's DLLogger": re.compile(r"^DLL \d{4}-|\"step\": .{0,200}\"data\": \{|^DLLL \{"),
    "PyTorch's ImageNet example": re.compile(r"Epoch: \[\d+\]\[\s*\d+/\d+\]"),
    "torchvision's reference scripts": re.compile(r"Epoch: \[\d+\]\s+\[\s*\d+/\d+\]\s+eta:"),
    "TF-Slim": re.compile(r"global[_ ]step \d{1,12}: loss = .{0,200}sec/step\)"),
    "a TensorFlow Estimator": re.compile(r"global_step/sec: [\d.]+"),
    "TensorFlow's official models": re.compile(r"BenchmarkMetric: \{|TimeHistory: [\d.]+ "),
    "Caffe": re.compile(r"Iteration \d+ \([\d.e-]+ iter/s"),
    "BigDL": re.compile(r"Throughput is [\d.]+ records/second"),
    "GluonCV's detectors": re.compile(
        r"\[Epoch \d{1,12}\]\[Batch \d{1,12}\].{0,200} Speed: [\d.]{1,64} samples/sec"
    ),
    "Keras": re.compile(r"\b\d{1,9}/\d{1,9} \[[=>.]{1,200}\] - .{0,200}(?:ETA|loss):?"),
    "an evaluation of TensorFlow's Inception": re.compile(
        r"\[\d+ batches out of \d+\] \([\d.]+ examples/sec"
    ),
    "MXNet's benchmark_score.py, which does not train": re.compile(
        r"batch size\s+\d+, (?:dtype \w+, )?images?/sec:"
    ),
}


def read_log(path: Path, name: str = "auto") -> tuple[Format, Log]:
    """The format of a log, found by lines that only one has, and what the log says.

    Raises SpecError if it has no line with a speed or contradicts itself.
    """
    if name not in {"auto", *FORMATS}:
        raise unknown("format (--format)", name, ["auto", *FORMATS])
    likely = [FORMATS[name]] if name != "auto" else _found(path)
    for format_ in likely:
        try:
            log = format_.read(lines(path))
        except SpecError as error:
            if str(error).startswith(f"{path}: "):
                raise
            raise SpecError(f"{path}: {error}") from error
        if log.stretches:
            return format_, log
    count = len(log.spoilt)
    have = f"; {count} line{'s have' if count > 1 else ' has'} none that can be used"
    spoilt = have if count else ""
    raise SpecError(f"{path}: expected lines with a speed ({format_.title}){spoilt}, got none")


def _found(path: Path) -> list[Format]:
    """The formats that the file has lines of: the first that prints speeds, then MLPerf's."""
    first, other, events = "", "", False
    for line in lines(path):
        first = first or line.text.strip()
        for format_ in FORMATS.values():
            if format_.found(line.text):
                if format_ is not mlperf.FORMAT:
                    return [format_, mlperf.FORMAT] if events else [format_]
                events = True
        if not other and line.number <= _MOST_LINES:
            other = next((title for title, one in _OTHERS.items() if one.search(line.text)), "")
    if events:
        return [mlperf.FORMAT]
    if not first:
        raise SpecError(f"{path}: expected a log, the file is empty")
    known = f"expected a line with a speed in one of the formats {', '.join(FORMATS)}"
    if other:
        raise SpecError(f"{path}: {known}; got what looks like a log of {other}, which is not read")
    raise SpecError(f"{path}: {known}, found none; the first line is {quoted(first)}")
