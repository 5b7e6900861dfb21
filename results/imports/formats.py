"""Which formats are read, and which of them a file is in."""

from pathlib import Path

from bench.errors import SpecError, unknown
from results.imports import horovod, horovod_synthetic, mlperf, mxnet, tf_cnn, tf_inception
from results.imports.lines import lines
from results.imports.log import Format, Log

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (mxnet, tf_inception, horovod, tf_cnn, horovod_synthetic, mlperf)
}
_SHOWN = 60


def of(path: Path, name: str = "auto") -> tuple[Format, Log]:
    """The format of a log, found by the first line that only one has, and what the log says.

    Raises SpecError where it has no line with a speed.
    """
    if name not in {"auto", *FORMATS}:
        raise unknown("format (--format)", name, ["auto", *FORMATS])
    format_ = FORMATS[name] if name != "auto" else _found(path)
    log = format_.read(lines(path))
    if not log.stretches:
        spoilt = _spoilt(len(log.spoilt))
        raise SpecError(f"{path}: expected lines with a speed ({format_.title}){spoilt}, got none")
    return format_, log


def _found(path: Path) -> Format:
    first = ""
    for line in lines(path):
        first = first or line.text.strip()
        for format_ in FORMATS.values():
            if format_.found(line.text):
                return format_
    if not first:
        raise SpecError(f"{path}: expected a log, the file is empty")
    raise SpecError(
        f"{path}: expected a line with a speed in one of the formats {', '.join(FORMATS)}, found "
        f"none; the first line is {first[:_SHOWN]!r}"
    )


def _spoilt(count: int) -> str:
    if not count:
        return ""
    return f"; {count} line{'s have' if count > 1 else ' has'} none that can be used"
