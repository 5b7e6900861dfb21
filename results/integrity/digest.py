"""Digest of a run's records and logs, and the checksums that locate each change.

report/digests.json holds the size and SHA-256 of each file and a CRC of each line (of groups of
lines in files with tens of thousands). The digest is the SHA-256 of all names, sizes and SHA-256s.
It excludes the report's own files, which are listed beside it, because they can be rebuilt.
"""

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Annotated, Any

import msgspec

from bench.errors import brief, error_line, quoted
from results.cost.prices import Prices
from results.errors import StoreError, store_errors
from results.run import ELSEWHERE
from results.run_folder import (
    COVERED,
    DIGESTS,
    EXPORTS,
    LOGS,
    PAGE,
    PAPER,
    REPORT,
    TEXT,
    UNCOVERED,
    UPSTREAM,
)
from results.store import read_json, write_text
from results.worker_log import read_chunks

# 1: first.
SCHEMA = 1
# Format of the report's files: content, layout, place. Reports of other formats are not compared.
# 1: first. 2: results.csv has intervals, settings and notes; the page has the number.
# 3: notes on each empty cell of a baseline; unreadable lines are listed above the table;
# texts are escaped (markup, formulas), secrets are masked.
# 4: plain lines connect the labels of a figure to their points.
# 5: lists in the summary. 6: the quality of each point. 7: its verdict. 8: Plotly is compressed.
FORMAT = 8
BUILD_AGAIN = "Rebuild it from the current files with 'fab report.build'"
# Folders of files made from the report.
_MADE = tuple(f"{REPORT}/{folder}/" for folder in (UPSTREAM, EXPORTS, PAPER))
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
# Most marks per file; beyond, several lines share one.
_MOST_MARKS = 20_000
_PIECE_BYTES = 1 << 20
# Typical compressed size of text, as a fraction.
_PACKED = 0.05
# The format number in the page and the text of a report.
_NUMBER = re.compile(rb'<(?:meta name="report-format" content="|!-- report-format )(\d{1,9})')
_START_BYTES = 1 << 12


@dataclass(frozen=True, kw_only=True)
class FileDigest:
    """Checksums of a file when the report was built.

    lines   number of lines, after decompression for a .gz
    every   number of lines that share a mark
    marks   CRC-32 of each group of lines, eight hex digits each
    """

    bytes: _Count
    sha256: str
    lines: _Count
    every: _Count
    marks: str


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """Options that a report was built with, besides its run and prices.

    baseline   speed-up baseline, 'KVSTORE xN'
    place      Run.location at that time; None: unchanged
    over       name of the overlaid run
    libraries  versions of the drawing libraries
    baselines  the saved baselines then, with the time of each; the page shows their history
    predictions  number of lines of predictions.jsonl that it shows; later ones were added since
    """

    baseline: str = ""
    place: str | None = None
    over: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    predictions: _Count = 0
    baselines: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Digests:
    """Checksums of the files of a run and of its report, by name in the run folder.

    name    name of the run when the report was built, as in its title
    code    hash of the checkout that built the report
    prices  prices that the report was built with, or None
    format  format number of the report
    choice  other options that it was built with
    """

    files: Mapping[str, FileDigest]
    report: Mapping[str, FileDigest]
    name: str
    code: str
    prices: Prices | None = None
    format: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)] = 1
    choice: ReportSettings = field(default_factory=ReportSettings)

    @property
    def digest(self) -> str:
        """Digest of the run's files: 'sha256:...'."""
        named = {name: [one.bytes, one.sha256] for name, one in self.files.items()}
        return f"sha256:{_sha256(named)}"


def covered_files(folder: Path) -> dict[str, Path]:
    """Return the files covered by a run's digest, by name; links are skipped."""
    logs = folder / LOGS
    found = () if logs.is_symlink() else _regular_files(str(logs), f"{LOGS}/")
    ordered = sorted(found, key=lambda name: name.split("/"))
    return _named(folder, (folder / name for name in COVERED)) | {
        name: folder / name for name in ordered
    }


def report_files(folder: Path) -> dict[str, Path]:
    """Return the files of a run's report by name, without `UNCOVERED`."""
    found = (folder / REPORT).glob("[!.]*")
    return _named(folder, (path for path in found if f"{REPORT}/{path.name}" not in UNCOVERED))


def unknown_files(folder: Path) -> list[str]:
    """List files and links in a run's folder that belong to no run and no digest."""
    known = {*covered_files(folder), *report_files(folder), *UNCOVERED}
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    names = (path.relative_to(folder).as_posix() for path in found)
    return sorted(name for name in names if name not in known and not name.startswith(_MADE))


def _regular_files(folder: str, before: str) -> Iterator[str]:
    """Yield the names of the files below a folder, after `before`; links are skipped."""
    with (
        suppress(FileNotFoundError, NotADirectoryError, PermissionError),
        os.scandir(folder) as found,
    ):
        for one in found:
            if one.is_dir(follow_symlinks=False):
                yield from _regular_files(one.path, f"{before}{one.name}/")
            elif one.is_file(follow_symlinks=False) and not one.name.startswith("."):
                yield before + one.name


def _named(folder: Path, paths: Iterable[Path]) -> dict[str, Path]:
    found = sorted(path for path in paths if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path for path in found}


def files(folder: Path) -> dict[str, FileDigest]:
    """Compute the checksums of a run's covered files; StoreError if unreadable."""
    return {name: file_digest(path) for name, path in covered_files(folder).items()}


def run_digests(
    folder: Path, code: str = "", known: Mapping[str, FileDigest] | None = None
) -> Digests:
    """Compute the checksums of a run and its report.

    `known` checksums of the run's files are not computed again. Raises StoreError if a file cannot
    be read.
    """
    return Digests(
        files=files(folder) if known is None else known,
        report={name: file_digest(path) for name, path in report_files(folder).items()},
        name=folder.resolve().name,
        code=code,
        format=FORMAT,
    )


def write(
    folder: Path,
    code: str,
    known: Mapping[str, FileDigest] | None = None,
    prices: Prices | None = None,
    choice: ReportSettings | None = None,
) -> str:
    """Write report/digests.json for the run's current files; return the digest."""
    found = replace(
        run_digests(folder, code, known), prices=prices, choice=choice or ReportSettings()
    )
    data = {"schema": SCHEMA, "digest": found.digest, **asdict(found)}
    text = json.dumps(data | {"check": checksum(data)}, indent=1)
    write_text(folder / REPORT / DIGESTS, text + "\n")
    return found.digest


def load(folder: Path) -> Digests | None:
    """Load report/digests.json; None if missing, StoreError if it was modified."""
    where = folder / REPORT / DIGESTS
    data: dict[str, Any] = read_json(folder / REPORT, DIGESTS, {})
    if not where.exists():
        return None
    if data.get("schema", SCHEMA) != SCHEMA and data.get("check"):
        problem = "written by another version of mxscale"
        raise StoreError(error_line(where, problem=problem, fix=BUILD_AGAIN))
    if data.get("check") != checksum(data):
        raise StoreError(
            error_line(where, problem="modified after it was written", fix=BUILD_AGAIN)
        )
    try:
        return _digests(data)
    except (OverflowError, ValueError) as error:
        raise StoreError(
            error_line(where, problem=f"invalid content ({brief(error)})", fix=BUILD_AGAIN)
        ) from error


def checksum(data: Mapping[str, Any]) -> str:
    """Checksum digests.json without its format number, which selects the comparison."""
    return _sha256({n: one for n, one in data.items() if n not in {"check", "format"}})


def _digests(data: Mapping[str, Any]) -> Digests:
    """Decode digests.json; ValueError if a name or place is impossible for a run."""
    number = data.get("format", 1)
    if type(number) is not int:  # '2', 2.0 or true
        raise ValueError(f"format: expected a whole number, got {quoted(number)}")
    decoded = msgspec.convert(data, Digests)
    name, place = decoded.name, decoded.choice.place
    if Path(name).name != name or name == ".." or not name.isprintable():
        raise ValueError(f"name: expected the name of a run, got {quoted(name)}")
    path = PurePosixPath(place or "")
    below = path.name == name and not path.is_absolute() and ".." not in path.parts
    if place not in {None, "", ELSEWHERE} and not below:
        raise ValueError(f"place: expected a place of {name}, got {quoted(place)}")
    for file in (*decoded.files, *decoded.report):
        path = PurePosixPath(file)
        if not file.isprintable() or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"files: expected a file of a run, got {quoted(file)}")
    return decoded


def report_format(folder: Path, was: Digests | None) -> int | None:
    """Return the format of a run's report from digests.json, its page or its text.

    1 for a report that states none; None if there is no report.
    """
    if was is not None:
        return was.format
    for name in (PAGE, TEXT):
        path = folder / REPORT / name
        if path.is_file():
            with path.open("rb") as file:
                start = file.read(_START_BYTES)
            found = _NUMBER.search(start)
            return int(found[1]) if found else 1
    return 1 if report_files(folder) else None


def _sha256(data: object) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path, every: int = 0) -> FileDigest:
    """Compute size, SHA-256 and marks of a file; StoreError if it cannot be read.

    `every` is the number of lines per mark; 0 picks one, or more for a huge file.
    """
    with store_errors(path, "read"):
        found = path.stat()
        size = found.st_size
        if size <= _PIECE_BYTES and path.suffix != ".gz" and S_ISREG(found.st_mode):
            return _small_digest(path.read_bytes(), every)
        every = every or _every(path, size)
        sha256 = hashlib.sha256()
        if path.suffix == ".gz":
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256")
            lines, marks = _marked(_lines(path), every)
        else:
            lines, marks = _marked(_lines(path, sha256), every)
    return FileDigest(bytes=size, sha256=sha256.hexdigest(), lines=lines, every=every, marks=marks)


def _small_digest(data: bytes, every: int) -> FileDigest:
    """Compute the checksums of a file's content, which a run has ten thousands of."""
    every = every or _every_of(data, len(data))
    lines, marks = _marked(BytesIO(data), every)
    sha256 = hashlib.sha256(data).hexdigest()
    return FileDigest(bytes=len(data), sha256=sha256, lines=lines, every=every, marks=marks)


def _every(path: Path, size: int) -> int:
    """Estimate the lines per mark of a file; 1 except in huge files."""
    if path.suffix == ".gz":
        return max(1, round(size / _PACKED / 100 / _MOST_MARKS))
    with path.open("rb") as file:
        return _every_of(file.read(_PIECE_BYTES), size)


def _every_of(start: bytes, size: int) -> int:
    lines = (start.count(b"\n") + 1) / max(1, len(start)) * size
    return max(1, round(lines / _MOST_MARKS))


def _lines(path: Path, sha256: "hashlib._Hash | None" = None) -> Iterator[bytes]:
    """Yield the lines of a file, long ones in pieces.

    A damaged .gz ends at the damage. Updates `sha256`, if given, with the bytes read.
    """
    with suppress(gzip.BadGzipFile):
        for chunk in read_chunks(path):
            if sha256:
                sha256.update(chunk)
            yield from BytesIO(chunk)


def _marked(pieces: Iterable[bytes], every: int) -> tuple[int, str]:
    """Return the number of lines, and the CRC-32 of each group of `every` lines."""
    marks, count, crc, whole = [], 0, 0, True
    for piece in pieces:
        count += whole
        crc = zlib.crc32(piece, crc)
        whole = piece.endswith(b"\n")
        if whole and count % every == 0:
            marks.append(f"{crc:08x}")
            crc = 0
    if count % every or not whole:
        marks.append(f"{crc:08x}")
    return count, "".join(marks)


_MOST_NAMED = 3
_MARK = 8
# Files without lines.
_BINARY = {".png", ".zip", ".parquet"}


def changes(folder: Path, was: Digests, now: Digests) -> Iterator[str]:
    """Yield a line per change of a file: 'records.jsonl line 5: modified'."""
    before, found = {**was.files, **was.report}, {**now.files, **now.report}
    for name in sorted(before | found):
        if name not in found:
            yield f"{name}: missing; it was there when the report was built"
        elif name not in before:
            if not name.startswith(f"{REPORT}/"):
                yield f"{name}: added after the report was built"
        elif (before[name].bytes, before[name].sha256) != (found[name].bytes, found[name].sha256):
            yield from _places(name, before[name], file_digest(folder / name, before[name].every))


def _places(name: str, was: FileDigest, now: FileDigest) -> Iterator[str]:
    if Path(name).suffix in _BINARY:
        yield f"{name}: modified"
        return
    marks = [
        [one.marks[n : n + _MARK] for n in range(0, len(one.marks), _MARK)] for one in (was, now)
    ]
    places = [n for n, (a, b) in enumerate(zip_longest(*marks)) if a != b]
    if not places:
        yield f"{name}: recompressed; same lines"
    elif was.lines != now.lines:
        yield _of_other_length(name, was, now, places[0])
    else:
        for place in places[:_MOST_NAMED]:
            yield f"{name} {_changed_lines(place, was)}: modified"
        if len(places) > _MOST_NAMED:
            yield f"{name}: {len(places) - _MOST_NAMED} more lines modified"


def _of_other_length(name: str, was: FileDigest, now: FileDigest, place: int) -> str:
    count = f"{now.lines} lines now, {was.lines} when the report was built"
    if place * was.every >= was.lines:
        return f"{name}: lines added after line {was.lines}; {count}"
    if place * was.every >= now.lines:
        return f"{name}: truncated after line {now.lines}; {count}"
    return f"{name} {_changed_lines(place, was)}: modified; {count}"


def _changed_lines(place: int, was: FileDigest) -> str:
    first, last = place * was.every + 1, min((place + 1) * was.every, was.lines)
    return f"line {first}" if first >= last else f"lines {first} to {last}"
