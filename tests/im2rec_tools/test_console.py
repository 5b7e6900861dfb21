"""Tables of thousands of rows are printed in whole lines, as Rich draws them."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from im2rec_tools.console import Screen, joined_columns, table_width
from plots.tables.layout import Cells, terminal_grid

TEXTS = st.text(st.sampled_from("ab é漢[]│"), max_size=6)


def printed(table: Table, width: int = 200) -> str:
    file = io.StringIO()
    Screen(file=file, width=width).print(table)
    return file.getvalue()


def grid(rows: list[tuple[str, str]], style: str = "") -> Table:
    return terminal_grid(
        Cells(names=("network", "n"), rows=rows, styles=[style] * len(rows), texts={"network"})
    )


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_a_table_of_whole_lines_looks_the_same(rows: list[tuple[str, str]]) -> None:
    table = grid(rows)
    joined = joined_columns(table, 200)
    assert len(joined.columns) == 1
    assert printed(joined) == printed(table)


def test_its_rows_keep_their_color() -> None:
    file = io.StringIO()
    table = joined_columns(grid([("a", "1")], "red"), 80)
    Screen(file=file, width=80, force_terminal=True, color_system="standard").print(table)
    assert "\x1b[31m" in file.getvalue()


def test_a_table_that_does_not_fit_is_left_to_rich() -> None:
    table = grid([("a long name of a network", "1")])
    assert joined_columns(table, 200) is not table
    assert joined_columns(table, table_width(table) - 1) is table


@pytest.mark.parametrize("rows", [[], [("a", "1")], [("漢字", "12345678")]])
def test_the_width_of_a_table_is_what_rich_measures(rows: list[tuple[str, str]]) -> None:
    table = grid(rows)
    assert table_width(table) == Screen(width=1000, height=25).measure(table).maximum
    assert all(column.width is None for column in table.columns)
