"""Panels of the page: whole numbers on axes, ranges around points, legend."""

import dataclasses
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import axis, made, visit
from tests.support.runs.records import points, record

pytestmark = pytest.mark.browser
WIDE = {1: 0.65, 2: 1.25, 4: 2.4, 8: 4.6}
HIGH = {devices: 457.0 * devices for devices in (1, 4, 16, 64, 256)}


def labels(tab: Page, panel: str) -> list[str]:
    return tab.locator(f"#{panel} .ytick text").all_text_contents()


def values(texts: list[str]) -> list[float]:
    return [float(text.replace(",", "")) for text in texts]


def legend(tab: Page) -> list[str]:
    return tab.locator("#legend li").all_text_contents()


def ends(tab: Page, panel: str) -> list[float]:
    found = axis(tab, panel, "yaxis")
    return [10**end if found["type"] == "log" else end for end in found["range"]]


@pytest.fixture(scope="module")
def high(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Return a page of points with high throughput; tests restore its axes."""
    report = made(tmp_path_factory.mktemp("high"), *points(HIGH))
    with visit(browser, report / "index.html") as tab:
        yield tab


def switch(tab: Page) -> None:
    """Change the axes from logarithmic to linear or back."""
    tab.get_by_role("button", name="Logarithmic").click()


def has_whole_numbers_in_order(tab: Page) -> bool:
    """Return whether logarithmic axes have several whole numbers, in order."""
    for panel in ("rate", "speedup"):
        shown, (low, high) = labels(tab, panel), ends(tab, panel)
        assert len(shown) >= 3
        assert values(shown) == sorted(set(values(shown)))
        assert all(low <= value <= high for value in values(shown))
    return all(f"{value:,.12g}" == text for text in shown for value in values([text]))


@pytest.mark.slow
@pytest.mark.parametrize("rates", [WIDE, {1: 20.0, 2: 21.0}], ids=["low", "near"])
def test_logarithmic_axes_have_whole_numbers_in_order(
    browser: Browser, tmp_path: Path, rates: dict[int, float]
) -> None:
    with visit(browser, made(tmp_path, *points(rates)) / "index.html") as tab:
        assert has_whole_numbers_in_order(tab)


def test_logarithmic_axes_of_high_rates_have_whole_numbers_in_order(high: Page) -> None:
    assert has_whole_numbers_in_order(high)


def test_ticks_are_whole_numbers_after_a_zoom_and_after_reset(high: Page) -> None:
    before = labels(high, "rate")
    high.evaluate("Plotly.relayout('rate', {'yaxis.range': [Math.log10(2000), Math.log10(9000)]})")
    zoomed = values(labels(high, "rate"))
    assert len(zoomed) >= 3
    assert all(2000 <= value <= 9000 for value in zoomed)
    high.get_by_role("button", name="Reset zoom").click()
    assert labels(high, "rate") == before


@pytest.mark.slow
def test_a_huge_interval_runs_off_the_panel(browser: Browser, tmp_path: Path) -> None:
    unsure = [
        record([[9.0, one, one]], repeat=repeat, devices=2, kvstore="device")
        for repeat, one in enumerate((0.2, 2.0))
    ]
    report = made(tmp_path, record([[9.0, 1.0, 1.0, 1.0]], kvstore="device"), *unsure)
    with visit(browser, report / "index.html") as tab:
        rows = tab.evaluate(
            "['rate', 'speedup', 'efficiency'].map(id => document.getElementById(id).data.flatMap("
            "one => one.error_y ? one.y.map((y, at) => [y, y + one.error_y.array[at]]) : []))"
        )
        for panel, drawn in zip(("rate", "speedup", "efficiency"), rows, strict=True):
            top = ends(tab, panel)[1]
            most = max(value for value, _ in drawn)
            assert max(high for _, high in drawn) > top
            assert most <= top <= max(110, 2.1 * most)


def test_linear_axes_begin_at_zero_and_hold_all_points(high: Page) -> None:
    switch(high)
    (low, top), shown = ends(high, "rate"), labels(high, "rate")
    switch(high)
    assert low == 0
    assert top > HIGH[256]
    assert "100000" in shown


def test_the_ideal_speed_up_equals_the_devices_all_along(high: Page) -> None:
    switch(high)
    ideal = high.evaluate("document.getElementById('speedup').data[0]")
    kinds = [axis(high, "speedup", one)["type"] for one in ("xaxis", "yaxis")]
    switch(high)
    assert ideal["line"]["dash"] == "dot"
    assert ideal["x"] == ideal["y"] == [1, 256]
    assert len(set(kinds)) == 1  # else a straight line would be wrong


@pytest.mark.slow
def test_labels_of_linear_devices_do_not_touch_and_a_zoom_brings_more(
    browser: Browser, tmp_path: Path
) -> None:
    report = made(tmp_path, *points({2**n: 10.0 * 2**n for n in range(9)}))
    size: Any = {"width": 390, "height": 844}
    with visit(browser, report / "index.html", viewport=size) as tab:
        tab.get_by_role("button", name="Logarithmic").click()
        boxes = [one.bounding_box() for one in tab.locator("#rate .xtick text").all()]
        ends = [(box["x"], box["x"] + box["width"]) for box in boxes if box]
        assert len(ends) >= 3
        assert all(one[1] < other[0] for one, other in pairwise(ends))
        tab.evaluate("Plotly.relayout('rate', {'xaxis.range': [0, 10]})")
        assert tab.locator("#rate .xtick text").all_text_contents() == ["1", "2", "4", "8"]


@pytest.mark.slow
def test_the_ideal_rate_ends_where_its_network_does(browser: Browser, tmp_path: Path) -> None:
    short = [
        record([[1, 2.0, 2.0]] * devices, network="tiny", devices=devices, kvstore=kvstore)
        for devices, kvstore in ((1, "local"), (2, "dist_sync"))
    ]
    failed = record([[1, 2.0]], status="failed", network="tiny", devices=8, kvstore="dist_sync")
    code = "document.getElementById('rate').data.filter(one => one.line?.dash === 'dot')"
    for name, more, last in (("a", [], 2), ("b", [failed], 8)):
        report = made(tmp_path / name, *points(HIGH), *short, *more)
        with visit(browser, report / "index.html") as tab:
            (ideal,) = (one["x"] for one in tab.evaluate(code) if one["mode"] == "lines")
            assert ideal == [1, 256, None, 1, last]


@pytest.mark.slow
def test_the_legend_explains_only_marks_that_occur(
    browser: Browser, high: Page, tmp_path: Path
) -> None:
    good = points({1: 10.0, 2: 19.0})
    assert legend(high)[1:] == ["ideal: n x 1 device"]
    odd = [
        dataclasses.replace(good[1], emulated=True),
        *points({1: 10.0}),
        dataclasses.replace(points({4: 30.0})[0], status="failed", message="broken"),
    ]
    with visit(browser, made(tmp_path / "b", *odd) / "index.html") as tab:
        assert legend(tab)[1:3] == ["hollow: oversubscribed", "cross: no result"]


@pytest.mark.slow
def test_failed_points_on_as_many_devices_stand_above_each_other(
    browser: Browser, tmp_path: Path
) -> None:
    failed = [
        record([[1, 2.0]], status="failed", network=network, devices=2)
        for network in ("alexnet", "tiny")
    ]
    report = made(tmp_path, record([[1, 2.0, 2.1]]), *failed)
    with visit(browser, report / "index.html") as tab:
        cross = tab.evaluate("document.getElementById('rate').data.at(-1)")
        assert cross["x"] == [2, 2]
        assert cross["y"][0] < cross["y"][1]
        assert len(set(cross["marker"]["line"]["color"])) == 2


@pytest.mark.slow
def test_an_empty_panel_says_why_and_has_no_ticks(browser: Browser, tmp_path: Path) -> None:
    report = made(tmp_path, *points({2: 19.0, 4: 36.0}))
    with visit(browser, report / "index.html") as tab:
        said = tab.locator("#speedup .annotation").text_content() or ""
        assert "Needs a point on 1 device" in said
        assert tab.locator("#speedup .ytick").count() == 0
        assert tab.locator("#speedup .xtick").count() == 0
        tab.get_by_role("button", name="alexnet").click()
        assert tab.locator("#rate .annotation").text_content() == "All points are hidden."


@pytest.mark.slow
@pytest.mark.parametrize(("speed", "drawn"), [(40.0, True), (4000.0, False)])
def test_a_ceiling_is_drawn_within_reach_and_told_beyond(
    browser: Browser, tmp_path: Path, speed: float, drawn: bool
) -> None:
    reading = record([[160 / speed] * 5], mode="test-io", data_train="d")
    report = made(tmp_path, *points({1: 10.0, 2: 19.0}), reading)
    with visit(browser, report / "index.html") as tab:
        shown = tab.locator("#rate .textpoint").all_text_contents()
        assert ("input-pipeline limit" in shown) == drawn
        assert ("input-pipeline limit: " in tab.locator("#rate-note").inner_text()) != drawn


@pytest.mark.slow
def test_the_second_host_is_named_where_it_begins(browser: Browser, tmp_path: Path) -> None:
    report = made(tmp_path, *points({devices: 10.0 * devices for devices in (8, 16, 32)}))
    with visit(browser, report / "index.html") as tab:
        assert tab.locator("#rate .annotation").first.text_content() == "second host"
        layout = "document.getElementById('rate').layout"
        for line_at in (math.log10(512**0.5), 512**0.5):
            assert tab.evaluate(f"{layout}.annotations[0].x") == pytest.approx(line_at)
            assert tab.evaluate(f"{layout}.shapes[0].x0") == pytest.approx(512**0.5)
            tab.get_by_role("button", name="Logarithmic").click()


def test_a_row_of_the_table_chooses_its_point_by_click_and_by_key(high: Page) -> None:
    rows = high.locator("#table tbody tr")
    rows.nth(1).click()
    assert high.locator("#which").input_value() == "1"
    rows.nth(3).press("Enter")
    assert high.locator("#which").input_value() == "3"
    assert high.locator("#table .chosen").get_attribute("data-row") == "3"
