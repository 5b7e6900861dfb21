"""Rich console for untrusted text from hosts and files."""

import os
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from im2rec_tools.terminal import one_line, printable, unfiltered

# Width of sentences that go to a file or a pipe, and the least width that COLUMNS can ask for.
_WIDTH, _NARROWEST = 100, 20
# Letters that a piece of a folded header has at least, and the spaces around each column.
_LEAST_LETTERS, _AROUND = 5, 3


class Screen(Console):
    """Rich console that prints no escape sequences but its own."""

    def __init__(self, *, err: bool = False, **settings: Any) -> None:
        super().__init__(**{"file": unfiltered(err), "stderr": err, **settings})

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as Rich does, with control characters of a text as spaces."""
        for one in super().render(renderable, options):
            text = one.text
            if one.control or text == "\n" or text == (safe := _lines(text)):
                yield one
            else:
                yield Segment(safe, one.style)


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def cell(value: object, style: str = "") -> Text:
    """Return a value as a table cell: one line, no markup."""
    return Text(one_line(value), style=style)


def line(value: object, style: str = "") -> Text:
    """Return a value as one line without markup; spaces are kept."""
    return Text(printable(value), style=style)


def table_width(table: Table) -> int:
    """Return the width of a table in columns, unlimited by a terminal."""
    # Without a height, Rich assumes 80 columns on a dumb terminal, whatever the width.
    return Screen(width=1000, height=25).measure(table).maximum


def keep_headers(table: Table, width: int) -> None:
    """Keep at least five letters of a header on a line, if the width allows it."""
    least = [min(_LEAST_LETTERS, len(str(one.header))) for one in table.columns]
    if sum(least) + _AROUND * len(least) < width:
        for column, letters in zip(table.columns, least, strict=True):
            column.min_width = letters


def screen_for(table: Table) -> Screen:
    """Return a screen on standard output; if no terminal, as wide as the table."""
    screen = Screen()
    if screen.is_terminal:
        keep_headers(table, screen.width)
        return screen
    return Screen(width=max(text_width(screen), table_width(table)))


def is_limited(screen: Console) -> bool:
    """Return whether lines have a limit: that of a terminal, or COLUMNS."""
    return screen.is_terminal or os.environ.get("COLUMNS", "").isdecimal()


def text_width(screen: Console) -> int:
    """Return the width for sentences: the terminal's, else COLUMNS, else 100."""
    if screen.is_terminal:
        return screen.width
    columns = os.environ.get("COLUMNS", "")
    return max(_NARROWEST, int(columns)) if columns.isdecimal() else _WIDTH
