"""Report verification: cells, lines, pages and figures against the run."""

import base64
import binascii
import csv
import io
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import numpy as np
from PIL import Image

from bench.errors import SpecError
from plots.failures import Failures
from plots.format import list_names
from plots.markdown import document
from plots.report import EXTRA, build, libraries
from plots.results_csv import table_csv
from results.comparison.baselines import readable_baselines, saved_times
from results.comparison.references import reference, table_names
from results.cost.cost import Costs
from results.cost.cost import costs as point_costs
from results.cost.prices import Prices
from results.errors import StoreError
from results.integrity.archive import scratch
from results.integrity.digest import (
    BUILD_AGAIN,
    FORMAT,
    Digests,
    load,
    report_format,
    run_digests,
    unknown_files,
)
from results.integrity.file_changes import changes
from results.integrity.rederive import VerifyResult, rederive_run
from results.prediction.calibration import NO_PREDICTIONS, Predictions, load_predictions
from results.run import Run, with_baseline
from results.run_folder import (
    AB_TABLE,
    AB_TEXT,
    DIGESTS,
    EXPORTS,
    PAGE,
    PAPER,
    PARQUET,
    PICTURES,
    PREDICTION_TABLE,
    PREDICTIONS,
    REPORT,
    TABLE,
    TEXT,
    UPSTREAM,
)

_MOST_NAMED = 3
# A number as results.csv writes it. Python accepts more, such as 1_0; other readers do not.
_CELL = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
# Another machine's mathematics may differ in the last digit.
_RELATIVE_TOLERANCE = 1e-9
# A number with more digits than this was computed, not rounded.
_COMPUTED_DIGITS = 8
# Relative and absolute, for texts (False) and for an SVG's coordinates with six decimals (True).
_TOLERANCES = {False: (_RELATIVE_TOLERANCE, 0.0), True: (0.0, 2e-6)}
# A last digit can change the color of a pixel by this much, of 255.
_COLOR_TOLERANCE = 2
_NUMBER = re.compile(r"([0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?)")
_DIFFERENT = {
    "details": "point details differ from the run's",
    "data": "data of the figures differ from the run's",
    "plotly": "Plotly differs",
}
_PACKED = re.compile(r'<script type="text/plain" id="(details|data|plotly)">([^<]*)</script>')
_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_UNPACKED_BYTES = 1 << 28
# Files compared cell by cell and line by line.
_DERIVED = (TABLE, TEXT)
_DRAWN = (PAGE, *PICTURES)
# Files of bench.ab, and optional files of report.build.
_OTHERS = frozenset({AB_TEXT, AB_TABLE})
_EXTRA = {"upstream-csv": f"{UPSTREAM}/", "parquet": PARQUET}
# Folders that are not checked, with the task that writes them.
_MADE = {f"{EXPORTS}/": "results.export", f"{PAPER}/": "report.figure"}
# Not checked either: it grows after the report is built.
_PREDICTED = (PREDICTIONS, PREDICTION_TABLE)
_MOST_UNKNOWN = 10


@dataclass(frozen=True, kw_only=True)
class ReportOrigin:
    """How a report was built, as far as known.

    behind  the run that its figure shows behind this one
    excuse  why pages and figures may differ from those built here; '' if they must not
    predictions  those that it shows
    baselines  those whose results the page shows as history
    page_excuse  as `excuse`, for the page only
    """

    behind: Run | None = None
    excuse: str = ""
    predictions: Predictions = NO_PREDICTIONS
    baselines: Sequence[Run] = ()
    page_excuse: str = ""


def verify_report(
    folder: Path, expected: str = "", prices: Prices | None = None, over: Run | None = None
) -> VerifyResult:
    """Verify a run and its report; `expected` is the digest that the run should have.

    Costs use `prices`, else the prices that the report was built with. `over` is the run that the
    report's figure shows behind this one.
    """
    again, result = rederive_run(folder)
    if names := [one if one.isprintable() else ascii(one) for one in unknown_files(folder)]:
        listed = list_names(names, _MOST_UNKNOWN)
        result.unchecked.append(f"{listed}: not part of a run, and not in the digest")
    for made, task in _MADE.items():
        if (folder / REPORT / made).is_dir():
            result.unchecked.append(f"{REPORT}/{made}: written by {task}")
    if any((folder / REPORT / name).exists() for name in _PREDICTED):
        result.unchecked.append(f"{REPORT}/{PREDICTIONS}: written by report.predict")
    if (folder / REPORT).exists() and not (folder / REPORT).is_dir():
        result.wrong.append(f"{REPORT}: expected a folder, got a file. {BUILD_AGAIN}")
    was = _recorded_digests(folder, result)
    now = run_digests(folder, detailed=None if was is None else not was.folders)
    result.digest = now.digest
    result.wrong[:0] = _run_files(folder, now, was, expected)
    number = report_format(folder, was)
    if number not in {None, FORMAT}:
        line = f"report not checked: built by format {number}; run fab report.build"
        result.lacking.append(line)
    elif again is not None and number is not None:
        named = _as_built(again, was, result)
        costs = point_costs(named.rows, prices or (was.prices if was else None), named.environment)
        shown = load_predictions(folder, named.rows, was.choice.predictions if was else None)
        built = replace(_with_baselines(_built(was, over), was, folder), predictions=shown)
        result.wrong += _report_differences(named, costs, folder, built, result)
    return result


def _as_built(run: Run, was: Digests | None, result: VerifyResult) -> Run:
    """Return the run with the name, place and baseline that its report was built with."""
    placed = replace(run, place=run.location)
    if was is None:
        return placed
    if was.name != run.name:
        result.unchecked.append(f"the name of the run: {was.name!r} in its report")
    if was.prices is not None:
        result.unchecked.append("the prices that the report was built with")
    try:
        placed = with_baseline(placed, was.choice.baseline)
    except SpecError as error:
        result.wrong.append(f"{REPORT}/digests.json: {error}")
    folder = run.folder.resolve().with_name(was.name or run.name)
    place = placed.place if was.choice.place is None else was.choice.place
    return replace(placed, folder=folder, place=place)


def _built(was: Digests | None, over: Run | None) -> ReportOrigin:
    """Return how the report was built, as far as known."""
    if was is None:
        return ReportOrigin(behind=over)
    choice, here = was.choice, libraries()
    differing = [
        f"{name} {version}, installed {here.get(name, 'none')}"
        for name, version in choice.libraries.items()
        if here.get(name) != version
    ]
    excuse = f"drawn by other library versions: {'; '.join(differing)}" if differing else ""
    behind = None
    if over is None and choice.over:
        table = choice.over.removeprefix("reference:")
        if table in table_names():
            over = reference(table)
        else:
            excuse = f"drawn over {choice.over!r}. Name that run: --over RUN"
    if over is not None:
        behind = with_baseline(over, choice.baseline)
    return ReportOrigin(behind=behind, excuse=excuse)


def _with_baselines(built: ReportOrigin, was: Digests | None, folder: Path) -> ReportOrigin:
    """Add the baselines that the report was built with, if they are still there."""
    if was is None:
        return built
    chosen, here = was.choice.baselines, saved_times(folder)
    changed = [name for name, time in chosen.items() if here.get(name) != time]
    if not changed:
        return replace(built, baselines=readable_baselines(folder, chosen))
    names = list_names(changed, _MOST_NAMED)
    return replace(built, page_excuse=f"history of other baselines: {names}")


def _recorded_digests(folder: Path, result: VerifyResult) -> Digests | None:
    """Return the digests that the report recorded; needed to locate changes in files."""
    was = None
    try:
        was = load(folder)
        if was is None:
            result.unchecked.append(
                f"{REPORT}/{DIGESTS}: missing; the lines that changed in a file cannot be located"
            )
    except StoreError as error:
        result.wrong.append(str(error))
    return was


def _run_files(folder: Path, now: Digests, was: Digests | None, expected: str) -> Iterator[str]:
    """Yield the problems of the run's files."""
    if expected and now.digest != expected:
        yield f"{folder.name}: expected the digest {expected}, got {now.digest}"
        if was is not None and was.digest != expected:
            yield (
                f"{REPORT}/{DIGESTS}: has the digest {was.digest}, which is not the expected one "
                f"either. The report was rebuilt since, or this file was changed with the others"
            )
    elif expected and was is not None and was.digest != expected:
        yield (
            f"{REPORT}/{DIGESTS}: belongs to other files; the files of the run have the expected "
            f"digest"
        )
    if was is not None:
        yield from changes(folder, was, now)


def _report_differences(
    again: Run, costs: Costs, folder: Path, built: ReportOrigin, result: VerifyResult
) -> Iterator[str]:
    """Yield the problems of the report's files."""
    giver = "the events" if result.ranks else "the records"
    table = folder / REPORT / TABLE
    if table.is_file() and lacks_prices(costs, table.read_text(encoding="utf-8", errors="replace")):
        yield (
            f"{TABLE}: has cost columns, but their prices are unknown. Give --prices FILE, or "
            f"rebuild the report with 'fab report.build'"
        )
        return
    for name in _DERIVED:
        path = folder / REPORT / name
        if not path.is_file():
            result.unchecked.append(f"{REPORT}/{name}: missing")
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if name == TABLE:
            result.rows = len(again.rows)
            yield from cell_differences(again, costs, text, giver)
        else:
            yield from line_differences(again, costs, text, built.predictions)
    yield from _rebuilt_differences(again, costs, folder, built, result)


def _rebuilt_differences(
    again: Run, costs: Costs, folder: Path, built: ReportOrigin, result: VerifyResult
) -> Iterator[str]:
    """Rebuild pages, figures and tables, and yield those that differ."""
    there = _report_files(folder / REPORT)
    with scratch() as place:
        run = replace(again, folder=place / again.name)
        build(run, costs, built.behind, Failures(), built.predictions, baselines=built.baselines)
        for name, where in _EXTRA.items():
            if any(one.startswith(where) for one in there):
                try:
                    EXTRA[name](run, costs)
                except StoreError as error:
                    result.lacking.append(f"{REPORT}/{where}: not compared: {error}")
        made = _report_files(run.folder / REPORT)
        for name in sorted(made.keys() - {*_DERIVED, DIGESTS}):
            path = there.pop(name, None)
            if path is None:
                result.unchecked.append(f"{REPORT}/{name}: missing")
            elif path.is_symlink() or not path.is_file():
                yield f"{name}: not a regular file"
            elif (difference := file_difference(path, made[name])) and (
                excuse := built.excuse or (built.page_excuse if name == PAGE else "")
            ):
                result.lacking.append(f"{name}: not compared: {excuse}")
            elif difference:
                yield difference
    for name in sorted(there.keys() - {*_DERIVED, DIGESTS}):
        if name in _DRAWN or name.startswith(_EXTRA["upstream-csv"]):
            yield f"{name}: not part of this run's report"
        elif name in _OTHERS:
            result.unchecked.append(f"{name}: compared with {REPORT}/{DIGESTS} only")
        elif name not in _EXTRA.values():
            shown = name if name.isprintable() else ascii(name)
            result.lacking.append(f"{REPORT}/{shown}: not part of a report, not checked")


def _report_files(report: Path) -> dict[str, Path]:
    """Return the report's files and links by relative name, without `_MADE`."""
    found = (path for path in report.rglob("*") if path.is_symlink() or not path.is_dir())
    named = {path.relative_to(report).as_posix(): path for path in found}
    made = (*_MADE, *_PREDICTED)
    return {name: path for name, path in named.items() if not name.startswith(made)}


def cell_differences(run: Run, costs: Costs, text: str, giver: str) -> Iterator[str]:
    """Yield the cells of results.csv that differ; `giver` names the run's source."""
    stored, found = _rows(text), _rows(table_csv(run.rows, costs, run.commit))
    header = found[0]
    if not stored or stored[0] != header:
        yield f"{TABLE} line 1: expected the names of the columns, got something else"
        return
    if len(stored) != len(found):
        yield f"{TABLE}: expected {len(found) - 1} rows (from {giver}), got {len(stored) - 1}"
    for number, (one, other) in enumerate(zip(stored[1:], found[1:], strict=False), 1):
        name = run.rows[number - 1].name
        if len(one) != len(header):
            yield f"{TABLE} row {number} ({name}): expected {len(header)} cells, got {len(one)}"
            continue
        for column, cell, derived in zip(header, one, other, strict=True):
            if not _same_cell(cell, derived):
                has, gives = (text[:200] or "nothing" for text in (cell, derived))
                where = f"{TABLE} row {number} ({name}), {column}"
                yield f"{where}: expected {gives} (from {giver}), got {has}"


def lacks_prices(costs: Costs, text: str) -> bool:
    """Return whether results.csv has currency columns although prices are unknown."""
    header = next(iter(_rows(text)), [])
    per = {name for name in header if name.startswith("images_per_")}
    return bool(per - {"images_per_second", "images_per_joule"}) and not costs.prices


def line_differences(
    run: Run, costs: Costs, text: str, predictions: Predictions = NO_PREDICTIONS
) -> Iterator[str]:
    """Yield the lines of report.md that differ from a rebuilt one."""
    made = document(run, costs, Failures(), predictions)
    if text == made:
        return
    lines = zip_longest(text.split("\n"), made.split("\n"))
    wrong = [(n, one, other) for n, (one, other) in enumerate(lines, 1) if one != other]
    for number, one, other in wrong[:_MOST_NAMED]:
        yield f"{TEXT} line {number}: {_difference(one or '', other or '')}"
    if len(wrong) > _MOST_NAMED:
        yield f"{TEXT}: {len(wrong) - _MOST_NAMED} more lines differ"


def file_difference(path: Path, made: Path) -> str:
    """Return the first difference of a file from a rebuilt one; '' if they agree.

    Differences in the last digits of computed numbers and in compression do not count.
    """
    stored, found = path.read_bytes(), made.read_bytes()
    if stored == found:
        return ""
    if path.suffix == ".parquet":
        return "" if _same_frames(path, made) else f"{path.name}: rows differ from the run's"
    if path.suffix == ".png":
        return "" if _same_image(stored, found) else f"{path.name}: pixels differ from the run's"
    try:
        return _text_difference(path.name, stored.decode(), found.decode())
    except UnicodeDecodeError:
        return f"{path.name}: expected UTF-8 text, got other bytes"


def _same_frames(path: Path, made: Path) -> bool:
    """Return whether two Parquet files hold the same rows."""
    import pandas as pd  # noqa: PLC0415 - few reports have one

    try:
        stored, found = (pd.read_parquet(one, engine="pyarrow").to_csv() for one in (path, made))
    except (OSError, ValueError):  # the errors of pyarrow derive from these
        return False
    return _same_text(stored, found)


def _text_difference(name: str, stored: str, found: str) -> str:
    """Return the first line in which the texts differ."""
    lines = zip_longest(stored.split("\n"), found.split("\n"))
    for number, (one, other) in enumerate(lines, 1):
        if one == other:
            continue
        if one is None or other is None:
            problem = "missing" if one is None else "expected the end of the file, got more lines"
            return f"{name} line {number}: {problem}"
        if match := _PACKED.fullmatch(other):
            if not _same_packed(one, match):
                return f"{name} line {number}: {_DIFFERENT[match[1]]}"
        elif not _same_to_tolerance(one, other, *_TOLERANCES[name.endswith(".svg")]):
            return f"{name} line {number}: {_difference(one, other)}"
    return ""


def _same_text(one: str, other: str) -> bool:
    """Return whether two texts differ in the last digits of long numbers only."""
    return _same_to_tolerance(one, other, *_TOLERANCES[False])


def _same_to_tolerance(one: str, other: str, relative: float, absolute: float) -> bool:
    parts, others = _NUMBER.split(one), _NUMBER.split(other)
    if len(parts) != len(others) or parts[::2] != others[::2]:
        return False
    return all(
        a == b
        or (
            max(len(a), len(b)) > _COMPUTED_DIGITS
            and math.isclose(float(a), float(b), rel_tol=relative, abs_tol=absolute)
        )
        for a, b in zip(parts[1::2], others[1::2], strict=True)
    )


def _same_packed(line: str, wanted: re.Match[str]) -> bool:
    """Return whether a line of the page holds the same text, in any compression."""
    match = _PACKED.fullmatch(line)
    if match is None or match[1] != wanted[1]:
        return False
    stored, found = _unpacked(match[2]), _unpacked(wanted[2])
    return stored is not None and found is not None and _same_text(stored, found)


def _unpacked(packed: str) -> str | None:
    try:
        unpack = zlib.decompressobj(31)
        text = unpack.decompress(base64.b64decode(packed, validate=True), _MOST_UNPACKED_BYTES)
        return text.decode() if unpack.eof and not unpack.unused_data else None
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        return None


def _same_image(stored: bytes, found: bytes) -> bool:
    """Return whether two PNG files hold the same picture and nothing else."""
    if _png_chunks(stored) != _png_chunks(found):
        return False
    try:
        one, other = (np.asarray(Image.open(io.BytesIO(data)), int) for data in (stored, found))
    except (OSError, SyntaxError, ValueError, zlib.error):
        return False
    return one.shape == other.shape and int(abs(one - other).max()) <= _COLOR_TOLERANCE


def _png_chunks(data: bytes) -> list[bytes]:
    """Return a PNG's chunks and trailing bytes; pixels become one empty entry."""
    found: list[bytes] = [data[: len(_PNG)]]
    at = len(_PNG)
    while at + 12 <= len(data) and found[-1][4:8] != b"IEND":
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        chunk = data[at:end] if data[at + 4 : at + 8] != b"IDAT" else b""
        if chunk or found[-1]:
            found.append(chunk)
        at = end
    return [*found, data[at:]]


def _rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def _same_cell(cell: str, other: str) -> bool:
    if cell == other:
        return True
    if not (_CELL.fullmatch(cell) and _CELL.fullmatch(other)):
        return False
    return math.isclose(float(cell), float(other), rel_tol=_RELATIVE_TOLERANCE)


def _difference(one: str, other: str) -> str:
    """Return both lines from just before their first difference."""
    start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    begin = max(0, start - 20)
    return f"expected {other[begin:][:60]!r}, got {one[begin:][:60]!r}"
