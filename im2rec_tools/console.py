"""Rich's console for text of hosts, files and other people."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from im2rec_tools.terminal import one_line, printable, unfiltered


class Screen(Console):
    """Rich's console, whose own escape sequences are the only ones that it prints."""

    def __init__(self, *, err: bool = False, **settings: Any) -> None:
        super().__init__(**{"file": unfiltered(err), "stderr": err, **settings})

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As Rich's, with each control character of a text as a blank."""
        for one in super().render(renderable, options):
            text = one.text
            if one.control or text == "\n" or text == (safe := _lines(text)):
                yield one
            else:
                yield Segment(safe, one.style)


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def cell(value: object, style: str = "") -> Text:
    """A value in one line, without markup, as a cell of a table."""
    return Text(one_line(value), style=style)


def line(value: object, style: str = "") -> Text:
    """A value as one line without markup, its blanks kept."""
    return Text(printable(value), style=style)


def table_width(table: Table) -> int:
    """How many columns a table takes that no terminal limits."""
    # Without a height a dumb terminal is taken for 80 columns wide whatever the width.
    return Screen(width=1000, height=25).measure(table).maximum


def screen_for(table: Table) -> Screen:
    """Standard output; wide enough to be read later if it is no terminal."""
    screen = Screen()
    return screen if screen.is_terminal else Screen(width=max(140, table_width(table)))
