"""Digest of a run's records and logs, and the checksums that locate each change.

report/digests.json holds the size and SHA-256 of each file and a CRC of each line (of groups of
lines in files with tens of thousands). A run with more than `MOST_DETAILED` logs has one SHA-256
per folder of a job in their place, and the start of the SHA-256 of each of its files. The digest is
the SHA-256 of all names, sizes and SHA-256s in either case. It excludes the report's own files,
which are listed beside it, because they can be rebuilt.
"""

import gzip
import hashlib
import json
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from io import BytesIO
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
from results.store import on_all_cores, read_json, write_text
from results.worker_log import read_chunks

# 1: first. 2: one entry per folder of many logs; lines of schema 1 are read too.
SCHEMA = 2
_SCHEMAS = (1, 2)
# Format of the report's files: content, layout, place. Reports of other formats are not compared.
# 1: first. 2: results.csv has intervals, settings and notes; the page has the number.
# 3: notes on each empty cell of a baseline; unreadable lines are listed above the table;
# texts are escaped (markup, formulas), secrets are masked.
# 4: plain lines connect the labels of a figure to their points.
# 5: lists in the summary. 6: the quality of each point. 7: its verdict. 8: Plotly is
# compressed. 9: so are the data of figures.
FORMAT = 9
BUILD_AGAIN = "Rebuild it from the current files with 'fab report.build'"
# Folders of files made from the report.
_MADE = tuple(f"{REPORT}/{folder}/" for folder in (UPSTREAM, EXPORTS, PAPER))
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
# Most marks per file; beyond, several lines share one.
_MOST_MARKS = 20_000
_PIECE_BYTES = 1 << 20
# Most logs are smaller, and a buffer of this size costs nothing.
_SMALL_BYTES = 1 << 16
# Runs with more logs have one entry per folder of a job.
MOST_DETAILED = 10_000
# Hex digits of a file's SHA-256 in the entry of its folder.
_START_DIGITS = 16
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
class FolderDigest:
    """Checksums of the logs of one job when the report was built.

    names   place of its list of file names in `RunFiles.names`
    sha256  of the names, sizes and SHA-256s of its files
    starts  first 16 hex digits of the SHA-256 of each file, in the order of the names
    """

    names: _Count
    sha256: str
    starts: str


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """Checksums of a run's files, by name in the run folder.

    digest   the digest of the run: 'sha256:...'
    files    those of each file that is in no folder of `folders`
    folders  those of folders, by name with a final '/'; empty for runs with few logs
    names    the distinct lists of file names of `folders`, relative to a folder
    """

    digest: str
    files: Mapping[str, FileDigest]
    folders: Mapping[str, FolderDigest] = field(default_factory=dict)
    names: Sequence[Sequence[str]] = ()

    def starts(self, folder: str) -> dict[str, str]:
        """Return the start of the SHA-256 of each file of a folder, by name."""
        found = self.folders.get(folder)
        if found is None:
            return {}
        starts = pieces(found.starts, _START_DIGITS)
        return {
            f"{folder}{name}": one
            for name, one in zip(self.names[found.names], starts, strict=True)
        }


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
class Digests(RunFiles):
    """Checksums of the files of a run and of its report, by name in the run folder.

    name    name of the run when the report was built, as in its title
    code    hash of the checkout that built the report
    prices  prices that the report was built with, or None
    format  format number of the report
    choice  other options that it was built with
    """

    report: Mapping[str, FileDigest]
    name: str
    code: str
    prices: Prices | None = None
    format: Annotated[int, msgspec.Meta(ge=1, lt=1 << 31)] = 1
    choice: ReportSettings = field(default_factory=ReportSettings)


def covered_files(folder: Path) -> dict[str, Path]:
    """Return the files covered by a run's digest, by name; links are skipped."""
    loose, folders = _covered(folder)
    names = [*loose, *(place + name for place, names in folders.items() for name in names)]
    return {name: folder / name for name in names}


def _covered(folder: Path) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return the names of a run's files, and those of its jobs' logs by folder."""
    loose, folders = list(_named(folder, (folder / name for name in COVERED))), {}
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for key in _below(folder / LOGS, f"{LOGS}/", loose):
        for job in _below(folder / key, key, loose):
            names = tuple(sorted(map(sys.intern, _regular_files(str(folder / job), ""))))
            if names:
                folders[job] = known.setdefault(names, names)  # most jobs have the same names
    return loose, folders


def _below(folder: Path, before: str, loose: list[str]) -> list[str]:
    """Return the folders in a folder, after `before`; add its files to `loose`."""
    folders, files = _entries(folder) if not folder.is_symlink() else ([], [])
    loose += [before + name for name in files if not name.startswith(".")]
    return [f"{before}{name}/" for name in folders]


def _entries(folder: Path | str) -> tuple[list[str], list[str]]:
    """Return the names of a folder's folders and files, sorted; links are skipped."""
    folders, files = list[str](), list[str]()
    with (
        suppress(FileNotFoundError, NotADirectoryError, PermissionError),
        os.scandir(folder) as found,
    ):
        for one in found:
            if one.is_dir(follow_symlinks=False):
                folders.append(one.name)
            elif one.is_file(follow_symlinks=False):
                files.append(one.name)
    return sorted(folders), sorted(files)


def report_files(folder: Path) -> dict[str, Path]:
    """Return the files of a run's report by name, without `UNCOVERED`."""
    found = (folder / REPORT).glob("[!.]*")
    return _named(folder, (path for path in found if f"{REPORT}/{path.name}" not in UNCOVERED))


def unknown_files(folder: Path) -> list[str]:
    """List files and links in a run's folder that belong to no run and no digest."""
    known = {*_named(folder, (folder / name for name in COVERED)), *report_files(folder)}
    known |= {*UNCOVERED}
    found = (name for name in _all_names(folder, "") if name not in known)
    return sorted(name for name in found if not name.startswith(_MADE))


def _all_names(folder: Path, before: str) -> Iterator[str]:
    """Yield all names below a folder but those of folders and of covered logs."""
    with (
        suppress(FileNotFoundError, NotADirectoryError, PermissionError),
        os.scandir(folder) as found,
    ):
        for one in found:
            name, is_covered = before + one.name, not one.name.startswith(".")
            if one.is_dir(follow_symlinks=False):
                yield from _all_names(folder / one.name, f"{name}/")
            elif not (
                name.startswith(f"{LOGS}/") and is_covered and one.is_file(follow_symlinks=False)
            ):
                yield name


def _regular_files(folder: str, before: str) -> Iterator[str]:
    """Yield the names of the files below a folder, after `before`; links are skipped."""
    folders, files = _entries(folder)
    yield from (before + name for name in files if not name.startswith("."))
    for name in folders:
        yield from _regular_files(f"{folder}/{name}", f"{before}{name}/")


def _named(folder: Path, paths: Iterable[Path]) -> dict[str, Path]:
    found = sorted(path for path in paths if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path for path in found}


def files(folder: Path, detailed: bool | None = None) -> RunFiles:
    """Compute the checksums of a run's covered files; StoreError if unreadable.

    `detailed` gives each log an entry of its own; None: unless there are very many.
    """
    loose, folders = _covered(folder)
    if detailed is None:
        detailed = sum(map(len, folders.values())) <= MOST_DETAILED
    if detailed:
        loose += [place + name for place, names in folders.items() for name in names]
        return _detailed({name: file_digest(folder / name) for name in sorted(loose)})
    return _by_folder(folder, loose, folders)


def _detailed(found: Mapping[str, FileDigest]) -> RunFiles:
    return RunFiles(digest=_digest_of(found), files=found)


def _digest_of(found: Mapping[str, FileDigest]) -> str:
    listed = _listed({name: [one.bytes, one.sha256] for name, one in sorted(found.items())})
    return f"sha256:{hashlib.sha256(b'{' + listed + b'}').hexdigest()}"


def _listed(found: Mapping[str, Sequence[object]]) -> bytes:
    """Return names, sizes and SHA-256s as the digest has them."""
    return json.dumps(found, separators=(",", ":"))[1:-1].encode()


# Names, sizes and SHA-256s of a file or of a folder, as the digest has them, and the checksums of
# the file, or the start of the SHA-256 of each file of the folder.
_Part = tuple[bytes, FileDigest | str]


def _by_folder(
    folder: Path, loose: Sequence[str], folders: Mapping[str, tuple[str, ...]]
) -> RunFiles:
    """Compute a run's checksums with an entry per folder, on all cores if large."""
    places = [*loose, *folders]  # the records take as long as hundreds of folders: first
    tasks = [folder] * len(places), places, [folders.get(one) for one in places]
    few = sum(map(len, folders.values())) <= MOST_DETAILED
    parts = map(_part, *tasks) if few else on_all_cores(folder, _part, *tasks)
    return _joined(sorted(zip(places, parts, strict=True)), folders)


def _joined(parts: Iterable[tuple[str, _Part]], folders: Mapping[str, tuple[str, ...]]) -> RunFiles:
    """Join the parts of a run, which must be in the order of their names."""
    lists = list(dict.fromkeys(folders.values()))
    numbers = {names: number for number, names in enumerate(lists)}
    digest, comma = hashlib.sha256(b"{"), b""
    alone: dict[str, FileDigest] = {}
    jobs: dict[str, FolderDigest] = {}
    for place, (listed, found) in parts:
        digest.update(comma + listed)
        comma = b","
        if isinstance(found, FileDigest):
            alone[place] = found
        else:
            sha256 = hashlib.sha256(listed).hexdigest()
            jobs[place] = FolderDigest(names=numbers[folders[place]], sha256=sha256, starts=found)
    digest.update(b"}")
    return RunFiles(digest=f"sha256:{digest.hexdigest()}", files=alone, folders=jobs, names=lists)


def _part(folder: Path, place: str, names: tuple[str, ...] | None) -> _Part:
    path = folder / place
    if names is None:
        one = file_digest(path)
        return _listed({place: [one.bytes, one.sha256]}), one
    found = list(_read_all(path, names))
    before = json.dumps(place)[:-1]
    # As _listed, in a third of its time.
    listed = [
        f'{before}{name}":[{size},"{sha256}"]'
        for name, (size, sha256) in zip(_escaped(names), found, strict=True)
    ]
    return ",".join(listed).encode(), "".join([sha256[:_START_DIGITS] for _, sha256 in found])


@lru_cache(maxsize=64)
def _escaped(names: tuple[str, ...]) -> list[str]:
    """Return names as JSON has them, without quotes; most jobs have the same names."""
    return [json.dumps(name)[1:-1] for name in names]


def _read_all(folder: Path, names: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield size and SHA-256 of each file of a folder; StoreError if unreadable."""
    with store_errors(folder, "read"):
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    name, buffer = "", bytearray(_SMALL_BYTES)
    buffers, data = [buffer], memoryview(buffer)
    try:
        for name in names:
            # A pipe in place of a file has no content then.
            file = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=place)
            try:
                size = read = os.readv(file, buffers)
                sha256 = hashlib.sha256(data[:read])
                while read == _SMALL_BYTES:
                    read = os.readv(file, buffers)
                    size += read
                    sha256.update(data[:read])
            finally:
                os.close(file)
            yield size, sha256.hexdigest()
    except OSError:
        with store_errors(folder / name, "read"):
            raise
    finally:
        os.close(place)


def run_digests(
    folder: Path, code: str = "", known: RunFiles | None = None, detailed: bool | None = None
) -> Digests:
    """Compute the checksums of a run and its report.

    `known` checksums of the run's files are not computed again; else `detailed` as for `files`.
    Raises StoreError if a file cannot be read.
    """
    return Digests(
        **vars(files(folder, detailed) if known is None else known),
        report={name: file_digest(path) for name, path in report_files(folder).items()},
        name=folder.resolve().name,
        code=code,
        format=FORMAT,
    )


def write(
    folder: Path,
    code: str,
    known: RunFiles | None = None,
    prices: Prices | None = None,
    choice: ReportSettings | None = None,
) -> str:
    """Write report/digests.json for the run's current files; return the digest."""
    found = replace(
        run_digests(folder, code, known), prices=prices, choice=choice or ReportSettings()
    )
    data = {"schema": SCHEMA, **asdict(found)}
    text = json.dumps(data | {"check": checksum(data)}, indent=1)
    write_text(folder / REPORT / DIGESTS, text + "\n")
    return found.digest


def load(folder: Path) -> Digests | None:
    """Load report/digests.json; None if missing, StoreError if it was modified."""
    where = folder / REPORT / DIGESTS
    data: dict[str, Any] = read_json(folder / REPORT, DIGESTS, {})
    if not where.exists():
        return None
    if data.get("schema", SCHEMA) not in _SCHEMAS and data.get("check"):
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
    _check_folders(decoded)
    inside = (name for names in decoded.names for name in names)
    for file in (*decoded.files, *decoded.report, *decoded.folders, *inside):
        path = PurePosixPath(file)
        if not file.isprintable() or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"files: expected a file of a run, got {quoted(file)}")
    return decoded


def _check_folders(found: Digests) -> None:
    """Raise ValueError if the folders of logs, or the digest, do not fit the rest."""
    if not found.folders and found.digest != _digest_of(found.files):
        raise ValueError("digest: expected that of the files")
    for place, one in found.folders.items():
        names = found.names[one.names] if one.names < len(found.names) else None
        if names is None or len(one.starts) != len(names) * _START_DIGITS:
            raise ValueError(f"folders: expected the files of {quoted(place)}")


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


def pieces(text: str, length: int) -> list[str]:
    """Cut a text into pieces of this length."""
    return [text[n : n + length] for n in range(0, len(text), length)]
