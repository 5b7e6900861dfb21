"""CSV for spreadsheets, which take a text that begins with certain marks for a formula."""

import csv
import io
import re
from collections.abc import Iterable

from im2rec_tools.terminal import printable

_FORMULA = re.compile(r"[\s\ufeff\u200b]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|nan)", re.IGNORECASE
)


def cell(value: object) -> object:
    """The value; before a text that would be a formula stands an apostrophe."""
    if not isinstance(value, str):
        return value
    # What UTF-8 cannot hold is escaped; an end of a line, also a lone CR, would begin a row.
    text = printable(value.encode(errors="backslashreplace").decode())
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def sheet(rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(cell, row) for row in rows])
    return text.getvalue()
