"""Report verification: cells, lines, pages and figures against the run."""

import base64
import binascii
import csv
import io
import math
import re
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from plots.failures import Failures
from plots.markdown import document
from plots.results_csv import results_frame
from results.cost.cost import Costs
from results.run import Run

_MOST_NAMED = 3
# As results.csv writes numbers; Python reads more, such as 1_0, which other readers do not.
_CELL = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
# Another machine's mathematics may differ in the last digit.
_RELATIVE_TOLERANCE = 1e-9
# Digits of a number that was computed and not rounded.
_COMPUTED_DIGITS = 8
# Of a coordinate in a figure; they have six decimals.
_COORDINATE_TOLERANCE = 2e-6
# Of 255: what a last digit can change in the color of a pixel.
_COLOR_TOLERANCE = 2
_NUMBER = re.compile(r"([0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?)")
_DETAILS = re.compile(r'<script type="text/plain" id="details">([^<]*)</script>')
_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_UNPACKED_BYTES = 1 << 28


def cell_differences(run: Run, costs: Costs, text: str, giver: str) -> Iterator[str]:
    """Where the text of results.csv says other than the run; `giver` is what the run is from."""
    said, found = _rows(text), _rows(results_frame(run.rows, costs, run.commit).to_csv(index=False))
    header = found[0]
    if not said or said[0] != header:
        yield "results.csv line 1: is not the line of its columns' names"
        return
    if len(said) != len(found):
        yield f"results.csv: {len(said) - 1} rows, {giver} give {len(found) - 1}"
    for number, (one, other) in enumerate(zip(said[1:], found[1:], strict=False), 1):
        name = run.rows[number - 1].trial.name
        if len(one) != len(header):
            yield f"results.csv row {number} ({name}): {len(one)} cells, expected {len(header)}"
            continue
        for column, cell, derived in zip(header, one, other, strict=True):
            if not _same_cell(cell, derived):
                yield (
                    f"results.csv row {number} ({name}), {column}: says {_shown(cell)}, "
                    f"{giver} give {_shown(derived)}"
                )


def lacks_prices(costs: Costs, text: str) -> bool:
    """Whether the text of results.csv has columns of money, and nothing says at which prices."""
    header = next(iter(_rows(text)), [])
    per = {name for name in header if name.startswith("images_per_")}
    return bool(per - {"images_per_second", "images_per_joule"}) and not costs.prices


def line_differences(run: Run, costs: Costs, text: str) -> Iterator[str]:
    """Where the text of report.md is not what would be written now."""
    made = document(run, costs, Failures())
    if text == made:
        return
    lines = zip_longest(text.split("\n"), made.split("\n"))
    wrong = [(n, one, other) for n, (one, other) in enumerate(lines, 1) if one != other]
    for number, one, other in wrong[:_MOST_NAMED]:
        yield f"report.md line {number}: {_difference(one or '', other or '')}"
    if len(wrong) > _MOST_NAMED:
        yield f"report.md: {len(wrong) - _MOST_NAMED} more lines are not what the run gives"


def file_difference(path: Path, made: Path) -> str:
    """Where a page or a figure is not the one that the run gives; '' if it is the same.

    It is if only the last digits of computed numbers differ, or how it is compressed.
    """
    said, found = path.read_bytes(), made.read_bytes()
    if said == found:
        return ""
    if path.suffix == ".parquet":
        return "" if _same_frames(path, made) else f"{path.name}: other rows than the run gives"
    if path.suffix == ".png":
        return "" if _same_image(said, found) else f"{path.name}: other pixels than the run gives"
    try:
        return _text_difference(path.name, said.decode(), found.decode())
    except UnicodeDecodeError:
        return f"{path.name}: is no text"


def _same_frames(path: Path, made: Path) -> bool:
    """Whether two Parquet files hold the same rows."""
    try:
        said, found = (pd.read_parquet(one, engine="pyarrow").to_csv() for one in (path, made))
    except (OSError, ValueError):  # what pyarrow raises is one of them
        return False
    return _same_text(said, found)


def _text_difference(name: str, said: str, found: str) -> str:
    """The first line in which the texts differ."""
    same = _same_coordinates if name.endswith(".svg") else _same_text
    lines = zip_longest(said.split("\n"), found.split("\n"))
    for number, (one, other) in enumerate(lines, 1):
        if one == other:
            continue
        if one is None or other is None:
            lacks = "one line more" if one is None else "no such line"
            return f"{name} line {number}: the run gives {lacks}"
        if match := _DETAILS.fullmatch(other):
            if not _same_details(one, match[1]):
                return f"{name} line {number}: other details of points than the run gives"
        elif not same(one, other):
            return f"{name} line {number}: {_difference(one, other)}"
    return ""


def _same_text(one: str, other: str) -> bool:
    """Whether two texts differ in the last digits of long numbers alone."""
    return _same_to_tolerance(one, other, relative=_RELATIVE_TOLERANCE)


def _same_coordinates(one: str, other: str) -> bool:
    return _same_to_tolerance(one, other, absolute=_COORDINATE_TOLERANCE)


def _same_to_tolerance(one: str, other: str, relative: float = 0.0, absolute: float = 0.0) -> bool:
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


def _same_details(line: str, packed: str) -> bool:
    """Whether a line of the page holds these details, however they are compressed."""
    match = _DETAILS.fullmatch(line)
    said, found = (_unpacked(text) for text in (match[1] if match else "", packed))
    return said is not None and found is not None and _same_text(said, found)


def _unpacked(packed: str) -> str | None:
    try:
        unpack = zlib.decompressobj(31)
        text = unpack.decompress(base64.b64decode(packed, validate=True), _MOST_UNPACKED_BYTES)
        return text.decode() if unpack.eof and not unpack.unused_data else None
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        return None


def _same_image(said: bytes, found: bytes) -> bool:
    """Whether two PNG files hold the same picture, and nothing besides."""
    if _png_chunks(said) != _png_chunks(found):
        return False
    try:
        one, other = (np.asarray(Image.open(io.BytesIO(data)), int) for data in (said, found))
    except (OSError, SyntaxError, ValueError, zlib.error):
        return False
    return one.shape == other.shape and int(abs(one - other).max()) <= _COLOR_TOLERANCE


def _png_chunks(data: bytes) -> list[bytes]:
    """The chunks of a PNG file, those of pixels as one that is empty; what follows the last."""
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


def _shown(cell: str) -> str:
    return cell[:200] or "nothing"


def _difference(one: str, other: str) -> str:
    """The two from a little before where they part."""
    start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    begin = max(0, start - 20)
    return f"says {one[begin:][:60]!r}, the run gives {other[begin:][:60]!r}"
