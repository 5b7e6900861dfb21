"""Layout of tables for the terminal and in Markdown: columns, titles, alignment."""

from collections.abc import Collection, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from tabulate import tabulate

from im2rec_tools.console import cell
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
