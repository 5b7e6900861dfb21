"""Supported log formats, and detection of a file's format."""

import re
from pathlib import Path

from bench.errors import SpecError, error_line, quoted, unknown
from bench.logs import horovod, mlperf, speedometer, tf_cnn, tf_inception
from bench.logs.lines import lines
from bench.logs.log import Format, Log

# Formats with throughput lines come before MLPerf's events, which such logs may also have.
FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        speedometer.FORMAT,
        tf_inception.FORMAT,
        horovod.FORMAT,
        tf_cnn.FORMAT,
        horovod.SYNTHETIC_FORMAT,
        mlperf.FORMAT,
    )
}
# Lines searched for the name of an unsupported format.
_MOST_LINES = 5000
# Common formats that mxscale cannot import.
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
    """Detect the format of a log by its lines and read it; `name` forces a format.

    Raises SpecError if the log has no throughput or contradicts itself.
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
            raise SpecError(error_line(path, problem=str(error))) from error
        if log.stretches:
            return format_, log
    count = len(log.spoilt)
    unusable = f"{count} line{'s have' if count > 1 else ' has'} an unusable value"
    expected = f"lines with a throughput ({format_.title})"
    raise SpecError(
        error_line(path, expected=expected, got="none", problem=unusable if count else "")
    )


def _found(path: Path) -> list[Format]:
    """Return the formats found in the file: the first with throughput, then MLPerf's."""
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
        raise SpecError(error_line(path, expected="a log", got="an empty file"))
    known = f"a line with a throughput in one of the formats {', '.join(FORMATS)}"
    if other:
        got = f"a log that looks like {other}, which mxscale cannot import"
        raise SpecError(error_line(path, expected=known, got=got))
    problem = f"the first line is {quoted(first)}"
    raise SpecError(error_line(path, expected=known, got="none", problem=problem))
