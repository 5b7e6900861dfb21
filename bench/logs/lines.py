"""Lines of another tool's log, and which worker printed each."""

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import IO

from bench.errors import SpecError, error_line
from im2rec_tools.files import format_size

_HEAD = 1 << 16
# Characters per line; longer lines are split, which bounds the memory used.
_LONGEST = 1 << 14
# Characters per log, uncompressed.
MOST_BYTES = 1 << 30
_COLORS = re.compile(r"\x1b\[[0-9;]{0,32}[A-Za-z]")
# mpirun and horovodrun (optionally with a time), SageMaker's "[1,mpirank:0,algo-1]<stderr>:",
# mxscale's launch.launch, srun --label.
_PREFIX = re.compile(
    r"(?:\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})?"
    r"\[(?:\d{1,9},)?(?:mpirank:)?(?P<mpi>\d{1,9})(?:,[\w.-]{1,64})?\]<std(?:out|err)>:\s?"
    r"|\[(?P<mxscale>\S{1,256} worker \d{1,9})\]\s?"
    r"|\s{0,32}(?P<srun>\d{1,9}): ",
    re.ASCII,
)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a file, numbered from 1; `worker` printed it ("" if unknown)."""

    number: int
    worker: str
    text: str

    @property
    def at(self) -> float | None:
        """The line's first date and time, in seconds since 1970, read as UTC."""
        found = _TIME.search(self.text)
        if found is None:
            return None
        day, clock, part = found.groups(default="0")
        try:
            whole = datetime.fromisoformat(f"{day} {clock}").replace(tzinfo=UTC).timestamp()
        except ValueError:
            return None
        return whole + float(f"0.{part}")


def lines(path: Path) -> Iterator[Line]:
    """Yield a text file's lines, gzipped or not, without colors and prefixes.

    Raises SpecError if the file cannot be read as text.
    """
    try:
        with _opened(path) as file:
            encoding = _encoding(path, file)
            with TextIOWrapper(file, encoding, errors="replace") as text:
                read = 0
                for number, one in enumerate(iter(lambda: text.readline(_LONGEST), ""), 1):
                    read += len(one)
                    if read > MOST_BYTES:
                        most = f"a log of at most {format_size(MOST_BYTES)}"
                        raise SpecError(error_line(path, expected=most, got="more"))
                    yield line(number, one)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SpecError(error_line(path, problem=f"damaged gzip file ({error})")) from error
    except OSError as error:
        raise SpecError(error_line(path, problem=f"cannot be read ({error.strerror})")) from error


def line(number: int, text: str) -> Line:
    """Return the line of this text, without its launcher prefix."""
    plain = _COLORS.sub("", text).rstrip("\r\n")
    prefix = _PREFIX.match(plain)
    if prefix is None:
        return Line(number=number, worker="", text=plain)
    worker = next(filter(None, prefix.groups()), "")
    return Line(number=number, worker=worker, text=plain[prefix.end() :])


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else path.open("rb")  # type: ignore[return-value]


def _encoding(path: Path, file: IO[bytes]) -> str:
    head = file.read(_HEAD)
    file.seek(0)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head:
        raise SpecError(error_line(path, expected="a log", got="a binary file"))
    return "utf-8-sig"
