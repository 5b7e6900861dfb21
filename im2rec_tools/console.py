"""Rich console for untrusted text from hosts and files."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
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
    for column in table.columns:  # measured by Rich, thousands of cells take a second
        column.width = max(map(cell_len, _texts(column)))
    # Without a height, Rich assumes 80 columns on a dumb terminal, whatever the width.
    found = Screen(width=1000, height=25).measure(table).maximum
    for column in table.columns:
        column.width = None
    return found


def _texts(column: Column) -> list[str]:
    """Return the header and the cells of a column as text."""
    return [str(one) for one in (column.header, *column.cells)]


def keep_headers(table: Table, width: int) -> None:
    """Keep at least five letters of a header on a line, if the width allows it."""
    least = [min(_LEAST_LETTERS, len(str(one.header))) for one in table.columns]
    if sum(least) + _AROUND * len(least) < width:
        for column, letters in zip(table.columns, least, strict=True):
            column.min_width = letters


def joined_columns(table: Table, width: int) -> Table:
    """Return the table with one column of whole lines, if it fits without folding.

    It looks the same, and a thousand rows take a tenth of the time.
    """
    texts = list(map(_texts, table.columns))
    widths = [max(map(cell_len, some)) for some in texts]
    if table.collapse_padding or sum(widths) + _AROUND * len(widths) >= width:
        return table
    lines = zip(*map(_padded, table.columns, texts, widths), strict=True)
    header, *rows = ((" " * _AROUND).join(one) for one in lines)
    found = Table(
        title=table.title,
        title_justify=table.title_justify,
        caption=table.caption,
        caption_justify=table.caption_justify,
        box=table.box,
    )
    found.add_column(header, width=cell_len(header), no_wrap=True)
    for row, old in zip(rows, table.rows, strict=True):
        found.add_row(Text(row), style=old.style)
    return found


def _padded(column: Column, texts: Sequence[str], width: int) -> list[str]:
    """Return the cells of a column with the spaces that its alignment asks for."""
    return [
        f"{' ' * (width - cell_len(text))}{text}"
        if column.justify == "right"
        else f"{text}{' ' * (width - cell_len(text))}"
        for text in texts
    ]


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
