"""Ratios of a run to the overlaid one: panel, table, and runs that share nothing."""

from pathlib import Path

import pytest

from plots.page.page import page
from plots.page.ratios import ratio_table
from tests.support.pages.pages import run_of, unpacked
from tests.support.runs.scenes import point, three


def test_each_point_has_its_ratio_with_the_interval_of_the_comparison() -> None:
    before = run_of(*three(), folder=Path("before"))
    now = run_of(*(point(n, rate, devices_per_host=4) for n, rate in ((1, 10), (2, 9), (4, 60))))
    found = ratio_table(now, before)
    for place, value in ((0, 1.0), (1, 0.5), (2, 2.0)):
        ratio = found.ratios[place]
        assert ratio.value == pytest.approx(value)
        assert ratio.low
        assert ratio.high
        assert ratio.low < value < ratio.high
    cells, place = found.rows[1]
    assert place == 1
    named = dict(zip(found.header, cells, strict=True))
    assert (named["point"], named["A"], named["B"]) == ("alexnet local x2", "18.00", "9.000")
    assert (named["B / A"], named["verdict"]) == ("0.500", "regressed")
    text = page(now, over=before)
    data = unpacked(text, "data")
    assert data["ratios"]["2"][0] == pytest.approx(2.0)
    assert "<td>0.500</td>" in text
    assert 'id="ratio"' in text


def test_points_of_other_settings_are_compared_by_size_and_the_page_lists_the_change() -> None:
    before = run_of(*three(), folder=Path("before"))
    now = run_of(*(point(n, 20.0 * n, batch_per_device=16, lr=0.5) for n in (1, 2)))
    found = ratio_table(now, before)
    assert [found.ratios[place].value for place in (0, 1)] == pytest.approx([2.0, 40 / 18])
    assert any("batch_per_device 8" in line for line in found.remarks)


def test_runs_that_share_no_point_have_no_ratio() -> None:
    now, before = run_of(point(1, 10.0)), run_of(point(2, 10.0), folder=Path("before"))
    assert ratio_table(now, before).rows == ()
    failed = run_of(point(1, 10.0, status="failed"), folder=Path("before"))
    assert ratio_table(now, failed).rows == ()
    for other in (before, failed):
        text = page(now, over=other)
        assert 'id="ratio"' not in text
        assert "has a result in both" in text
        assert unpacked(text, "data")["ratios"] is None
    assert 'id="ratios"' not in page(now)


def test_a_simulated_side_marks_the_panel_of_ratios() -> None:
    now = run_of(point(1, 10.0))
    played = run_of(point(1, 10.0, engine="fake"), folder=Path("played"))
    text = page(now, over=played)
    assert text.count("</strong> (SIMULATED) <span") == 1
    assert "Compared with played (simulated)" in text
