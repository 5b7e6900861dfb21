"""Layout of tables for the terminal and in Markdown: columns, titles, alignment."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from tabulate import tabulate

from im2rec_tools.console import cell, keep_headers, table_width
from plots.format import in_cell


def terminal_table(
    names: Sequence[str], texts: Collection[str] = (), title: str | None = None, **options: Any
) -> Table:
    """Return a table without rows; columns of `texts` are left-aligned.

    Wide cells are folded, not cut, because a cut number still looks like a number.
    """
    table = Table(
        title=None if title is None else cell(title),
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
    )
    for name in names:
        side = "left" if name in texts else "right"
        table.add_column(name, **{"justify": side, "overflow": "fold", **options})
    return table


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Content of a terminal table: header, rows with a style each, columns of text."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    styles: Sequence[str]
    texts: Collection[str]


def terminal_grid(cells: Cells, without: Collection[str] = ()) -> Table:
    """Return the cells as a table, without the columns `without`."""
    kept = [name not in without for name in cells.names]
    table = terminal_table(list(compress(cells.names, kept)), cells.texts)
    for style, row in zip(cells.styles, cells.rows, strict=True):
        # Brackets in user texts and error messages are printed literally.
        table.add_row(*map(cell, compress(row, kept)), style=style)
    return table


def fitting_grid(cells: Cells, spare: Sequence[str], width: int) -> tuple[Table, list[str]]:
    """Return a table that fits, if it can, and the columns that it leaves out.

    It puts columns closer together first. Then it leaves out those of `spare`, in that order.
    """
    known = [name for name in spare if name in cells.names]
    table, count = terminal_grid(cells), -1
    while table_width(table) > width and count < len(known):
        count += 1
        table = terminal_grid(cells, known[:count])
        table.collapse_padding, table.pad_edge, table.show_edge = True, False, False
    keep_headers(table, width)
    return table, known[: max(0, count)]


def markdown_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], texts: Collection[str]
) -> str:
    """Return the table in Markdown, without a final newline."""
    text: str = tabulate(
        [[in_cell(cell) for cell in row] for row in rows],
        headers=names,
        tablefmt="pipe",
        colalign=["left" if name in texts else "right" for name in names],
        disable_numparse=True,
    )
    return text
