"""Digest of a run's records and logs, with what it takes to name each change.

report/digests.json holds the bytes and SHA-256 of each file, and a CRC of each of its lines (of
several together where it has tens of thousands). The digest is the SHA-256 of names, bytes and
SHA-256s; the report's own files are listed beside it and are not in it, for they can be made again.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from bench.errors import brief, quoted
from results.cost.prices import Prices
from results.errors import StoreError, store_errors
from results.run import ELSEWHERE
from results.run_folder import (
    COVERED,
    DIGESTS,
    EXPORTS,
    LOGS,
    PAGE,
    REPORT,
    TEXT,
    UNCOVERED,
    UPSTREAM,
)
from results.store import read_json, write_text
from results.worker_log import read_chunks

# 1: first.
SCHEMA = 1
# Of a report's files: what they say, how, and where. A report of another format is not compared.
# 1: first. 2: results.csv has intervals, settings and notes; the page has the number.
# 3: notes on each empty cell of a baseline; what a file lacks stands above the table;
# texts are no markup and no formulas, secrets are masked.
# 4: plain lines join the labels of a figure to their points.
FORMAT = 4
BUILD_AGAIN = "'fab report.build' writes it anew, for the files as they are now"
# Folders of what is made from the report.
_MADE = (f"{REPORT}/{UPSTREAM}/", f"{REPORT}/{EXPORTS}/")
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
# Marks of one file; more lines than these share them.
_MOST_MARKS = 20_000
_PIECE_BYTES = 1 << 20
# Text has been seen to shrink to about so much of it.
_PACKED = 0.05
# Where page and text of a report have the number of their format.
_NUMBER = re.compile(rb'<(?:meta name="report-format" content="|!-- report-format )(\d{1,9})')
_START_BYTES = 1 << 12


@dataclass(frozen=True, kw_only=True)
class FileDigest:
    """A file as it was when the report was built.

    lines   how many it has, unpacked where it is a .gz
    every   how many lines share a mark
    marks   CRC-32 of each so many lines, eight hex digits each
    """

    bytes: _Count
    sha256: str
    lines: _Count
    every: _Count
    marks: str


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """What a report was built with, besides its run and prices.

    baseline   that speed-ups are against, 'KVSTORE xN'
    place      of the run then: see Run.location; None: as it is now
    over       the run that is drawn behind it, as it was named
    libraries  versions of those that draw
    """

    baseline: str = ""
    place: str | None = None
    over: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Digests:
    """The files of a run and of its report, by their names in the run folder.

    name    of the run when the report was built, which its title has
    code    the hash of the checkout that wrote the report
    prices  those that the report was built with, None where there were none
    format  of the report
    choice  what else it was built with
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
        """Of records, logs and what stands beside them: 'sha256:...'."""
        named = {name: [one.bytes, one.sha256] for name, one in self.files.items()}
        return f"sha256:{_sha256(named)}"


def covered_files(folder: Path) -> dict[str, Path]:
    """The files of a run that its digest is over, by their names there; links are none."""
    logs = (folder / LOGS).rglob("[!.]*") if not (folder / LOGS).is_symlink() else ()
    return _named(folder, [*(folder / name for name in COVERED), *logs])


def report_files(folder: Path) -> dict[str, Path]:
    """The files of a run's report by their names, without what says how they were."""
    return _named(
        folder, (path for path in (folder / REPORT).glob("[!.]*") if path.name != DIGESTS)
    )


def unknown_files(folder: Path) -> list[str]:
    """What else lies in a run's folder, links too, by its names there: of no run, in no digest."""
    known = {*covered_files(folder), *report_files(folder), *UNCOVERED}
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    names = (path.relative_to(folder).as_posix() for path in found)
    return sorted(name for name in names if name not in known and not name.startswith(_MADE))


def _named(folder: Path, paths: Iterable[Path]) -> dict[str, Path]:
    found = sorted(path for path in paths if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path for path in found}


def files(folder: Path) -> dict[str, FileDigest]:
    """What a run's digest is over, as it is now; StoreError where a file cannot be read."""
    return {name: file_digest(path) for name, path in covered_files(folder).items()}


def run_digests(
    folder: Path, code: str = "", known: Mapping[str, FileDigest] | None = None
) -> Digests:
    """Of a run as it is now, each file read once, but for those that are `known`.

    StoreError where one cannot be read.
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
    """Writes report/digests.json of a run as it is now; returns its digest. See `digests`."""
    found = replace(
        run_digests(folder, code, known), prices=prices, choice=choice or ReportSettings()
    )
    data = {"schema": SCHEMA, "digest": found.digest, **asdict(found)}
    text = json.dumps(data | {"check": checksum(data)}, indent=1)
    write_text(folder / REPORT / DIGESTS, text + "\n")
    return found.digest


def load(folder: Path) -> Digests | None:
    """What report/digests.json says, None where there is none; StoreError where it was changed."""
    where = folder / REPORT / DIGESTS
    data: dict[str, Any] = read_json(folder / REPORT, DIGESTS, {})
    if not where.exists():
        return None
    if data.get("schema", SCHEMA) != SCHEMA and data.get("check"):
        raise StoreError(f"{where}: written by another version of mxscale; {BUILD_AGAIN}")
    if data.get("check") != checksum(data):
        raise StoreError(f"{where}: was changed after it was written; {BUILD_AGAIN}")
    try:
        return _digests(data)
    except (OverflowError, ValueError) as error:
        raise StoreError(
            f"{where}: is not as it is written ({brief(error)}); {BUILD_AGAIN}"
        ) from error


def checksum(data: Mapping[str, Any]) -> str:
    """What tells a changed file; the format, which decides what is compared, is not in it."""
    return _sha256({n: one for n, one in data.items() if n not in {"check", "format"}})


def _digests(data: Mapping[str, Any]) -> Digests:
    """What was written; ValueError unless a run can have its names and lie at its place."""
    number = data.get("format", 1)
    if type(number) is not int:  # '2', 2.0 or true
        raise ValueError(f"expected a whole number as its format, got {quoted(number)}")
    said = msgspec.convert(data, Digests)
    name, place = said.name, said.choice.place
    if Path(name).name != name or name == ".." or not name.isprintable():
        raise ValueError(f"{quoted(name)} is no name of a run")
    path = PurePosixPath(place or "")
    below = path.name == name and not path.is_absolute() and ".." not in path.parts
    if place not in {None, "", ELSEWHERE} and not below:
        raise ValueError(f"{quoted(place)} is no place of {name}")
    for file in (*said.files, *said.report):
        path = PurePosixPath(file)
        if not file.isprintable() or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{quoted(file)} is no name of a file of a run")
    return said


def report_format(folder: Path, was: Digests | None) -> int | None:
    """The format of a run's report: by digests.json, else by its page or its text.

    1 for a report that has no number; None where there is no report.
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
    """Bytes, SHA-256 and marks of a file; StoreError where it cannot be read.

    `every` is how many lines share a mark; 0: one, or more in a huge file.
    """
    with store_errors(path, "read"):
        size = path.stat().st_size
        every = every or _every(path, size)
        sha256 = hashlib.sha256()
        if path.suffix == ".gz":
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256")
            lines, marks = _marked(_lines(path), every)
        else:
            lines, marks = _marked(_lines(path, sha256), every)
    return FileDigest(bytes=size, sha256=sha256.hexdigest(), lines=lines, every=every, marks=marks)


def _every(path: Path, size: int) -> int:
    """How many lines share a mark, by how long the first of them are; 1 in all but huge files."""
    with path.open("rb") as file:
        start = file.read(_PIECE_BYTES)
    if path.suffix == ".gz":
        return max(1, round(size / _PACKED / 100 / _MOST_MARKS))
    lines = (start.count(b"\n") + 1) / max(1, len(start)) * size
    return max(1, round(lines / _MOST_MARKS))


def _lines(path: Path, sha256: "hashlib._Hash | None" = None) -> Iterator[bytes]:
    """The file's lines, a long one in pieces; of a packed file, up to where it is damaged.

    What is read goes into the SHA-256 by the way.
    """
    with suppress(gzip.BadGzipFile):
        for chunk in read_chunks(path):
            if sha256:
                sha256.update(chunk)
            yield from BytesIO(chunk)


def _marked(pieces: Iterable[bytes], every: int) -> tuple[int, str]:
    """How many lines there are, and the CRC-32 of each `every` of them."""
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
# Text in places that a person can go to.
_BINARY = {".png", ".zip", ".parquet"}


def changes(folder: Path, was: Digests, now: Digests) -> Iterator[str]:
    """What was changed, taken away or added, a line each: 'records.jsonl line 5: was changed'."""
    before, found = {**was.files, **was.report}, {**now.files, **now.report}
    for name in sorted(before | found):
        if name not in found:
            yield f"{name}: is not there any more"
        elif name not in before:
            if not name.startswith(f"{REPORT}/"):
                yield f"{name}: was not there when the report was built"
        elif (before[name].bytes, before[name].sha256) != (found[name].bytes, found[name].sha256):
            yield from _places(name, before[name], file_digest(folder / name, before[name].every))


def _places(name: str, was: FileDigest, now: FileDigest) -> Iterator[str]:
    if Path(name).suffix in _BINARY:
        yield f"{name}: was changed"
        return
    marks = [
        [one.marks[n : n + _MARK] for n in range(0, len(one.marks), _MARK)] for one in (was, now)
    ]
    places = [n for n, (a, b) in enumerate(zip_longest(*marks)) if a != b]
    if not places:
        yield f"{name}: was packed anew, its lines are the same"
    elif was.lines != now.lines:
        yield _of_other_length(name, was, now, places[0])
    else:
        for place in places[:_MOST_NAMED]:
            yield f"{name} {_changed_lines(place, was)}: was changed"
        if len(places) > _MOST_NAMED:
            yield f"{name}: {len(places) - _MOST_NAMED} more lines were changed"


def _of_other_length(name: str, was: FileDigest, now: FileDigest, place: int) -> str:
    count = f"it has {now.lines} lines, {was.lines} when the report was built"
    if place * was.every >= was.lines:
        return f"{name}: grew after line {was.lines}; {count}"
    if place * was.every >= now.lines:
        return f"{name}: ends after line {now.lines}; {count}"
    return f"{name} {_changed_lines(place, was)}: was changed; {count}"


def _changed_lines(place: int, was: FileDigest) -> str:
    first, last = place * was.every + 1, min((place + 1) * was.every, was.lines)
    return f"line {first}" if first >= last else f"lines {first} to {last}"
