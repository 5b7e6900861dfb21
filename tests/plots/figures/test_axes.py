"""Ticks, titles and edges of the figure's panels are readable."""

from textwrap import wrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from plots.figures.axes import decimal_ticks, device_axis, readable_counts
from plots.figures.labels import balanced_lines
from tests.support.pages.figures import panels, texts
from tests.support.runs.records import record
from tests.support.runs.scenes import point, published, run, three


def test_the_other_runs_lines_end_with_its_name() -> None:
    other = run([point(n, 12 * n) for n in (1, 2)], "before")
    ends = texts(panels(three(), over=other)[0])
    assert {"alexnet", "alexnet (before)"} <= set(ends)


def test_a_network_without_a_base_is_named_where_it_is_not_drawn() -> None:
    vgg = [point(n, 9 * n, network="vgg", num_layers=16) for n in (2, 4)]
    rate, speedup, efficiency, _ = panels([*three(), *vgg])
    note = "no 1-device result: vgg-16"
    assert [axes.get_title(loc="right") for axes in (speedup, efficiency)] == [note] * 2
    assert rate.get_title(loc="right") == ""
    assert panels(three())[1].get_title(loc="right") == ""


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (15, 150_000, [2e1, 5e1, 1e2, 2e2, 5e2, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5]),
        (0.4, 30, [0.5, 1, 2, 5, 10, 20]),
        (6, 9, [6, 8]),
        (1, 1e7, [10.0**power for power in range(8)]),
    ],
)
def test_rates_have_ticks_that_people_count_in(low: float, high: float, ticks: list[float]) -> None:
    assert decimal_ticks(low, high) == ticks


def test_ticks_of_rates_are_written_as_in_the_table() -> None:
    rate = panels(published())[0]
    named = [rate.yaxis.get_major_formatter()(tick) for tick in rate.get_yticks()]
    assert {"20", "1000", "50000"} <= set(named)


def test_an_interval_that_leaves_the_axis_has_an_arrow_at_the_edge() -> None:
    wide = [record([[1, 1.0, 9.0]], devices=1), record([[1, 1.0, 1.1]], devices=2)]
    rate = panels(wide)[0]
    assert {"^", "v"} <= {one.get_marker() for one in rate.lines}
    assert not {"^", "v"} & {one.get_marker() for one in panels(three())[0].lines}


def test_a_long_title_is_folded_into_lines_of_one_length() -> None:
    text = "one " * 25 + "more"
    assert [len(line) for line in balanced_lines(text, 100).splitlines()] == [51, 52]
    assert balanced_lines("short", 100) == "short"


@example("aa  ", 1)
@given(st.text("ab ", max_size=90), st.integers(1, 40))
def test_a_folded_title_has_no_more_lines_than_it_needs(text: str, width: int) -> None:
    lines = balanced_lines(text, width).splitlines()
    assert len(lines) <= len(wrap(text, width))
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(("most", "every"), [(100, True), (101, False)])
def test_a_hundred_device_counts_have_a_tick_each_and_more_only_with_a_label(
    most: int, every: bool
) -> None:
    counts = list(range(1, most + 1))
    axes = Figure().subplots()
    device_axis(axes, counts)
    ticks = [int(one) for one in axes.get_xticks()]
    assert ticks == (counts if every else readable_counts(counts))
    assert {1, most} <= set(ticks)
