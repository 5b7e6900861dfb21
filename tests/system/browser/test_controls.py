"""Figures and table in Chromium, from disk and offline: every control works."""

import dataclasses
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from plots.page.page import page
from tests.support.pages.browser import (
    PANELS,
    axis,
    double_click,
    drawn_rows,
    hover,
    made,
    number,
    rows_of_csv,
    traces,
    visit,
)
from tests.support.pages.browser import points as two_networks
from tests.support.pages.pages import run_of, unpacked
from tests.support.repeats import slow
from tests.support.runs.records import points, record

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("row", [0, 3, 5])
def test_hover_shows_the_values_that_the_csv_holds(shown: Page, report: Path, row: int) -> None:
    told = {name: number(text) for name, text in rows_of_csv(report)[row].items()}
    rate = hover(shown, "rate", row)
    assert f"images/s: {told['images_per_second']:.6g}" in rate
    assert f"95 % CI: {told['low']:.6g} to {told['high']:.6g}" in rate
    speedup = hover(shown, "speedup", row)
    assert f"speed-up: {told['speedup_device']:.6g}" in speedup
    if row == 5:  # the value, its own interval, then the next value
        assert re.search(r"speed-up: [\d.]+95 % CI: [\d.]+ to [\d.]+efficiency: ", speedup)
    percent = hover(shown, "efficiency", row)
    assert f"efficiency: {100 * told['efficiency_device']:.1f} %" in percent
    if row == 5:  # efficiencies have their intervals in each panel
        low, high = (100 * told[f"efficiency_device_{end}"] for end in ("low", "high"))
        for text in (rate, speedup, percent):
            assert f" % (95 % CI {low:.1f} to {high:.1f})" in text


@pytest.mark.slow
def test_hover_shows_six_digits_or_all_whole_ones(browser: Browser, tmp_path: Path) -> None:
    speeds = {1: 0.0123456789, 2: 20.83333333, 4: 61938.4567, 8: 1234567.8912}
    report = made(tmp_path, *points(speeds))
    with visit(browser, report / "index.html") as tab:
        for place, row in enumerate(rows_of_csv(report)):
            held = float(row["images_per_second"])
            digits = f"{held:.6g}" if held < 1e6 else f"{held:.0f}"
            assert f"images/s: {digits}95 % CI" in hover(tab, "rate", place)


def test_a_failed_point_is_a_cross_on_the_axis_with_its_cause(shown: Page, report: Path) -> None:
    assert "failed: broken" in hover(shown, "rate", 11)
    (cross,) = [trace for trace in traces(shown, "rate") if trace["yaxis"] == "y2"]
    assert (cross["rows"], cross["x"]) == ([11], [4])
    code = "() => document.getElementById('rate').data.at(-1).marker.line.color"
    lines = unpacked((report / "index.html").read_text(), "data")["run"]["lines"]
    assert shown.evaluate(code) == [lines[2]["color"]]


def test_another_run_is_drawn_behind_grey_and_dashed(browser: Browser, tmp_path: Path) -> None:
    run = run_of(*two_networks()[:6])
    path = tmp_path / "index.html"
    path.write_text(page(run, over=dataclasses.replace(run, folder=Path("before"))))
    code = "document.getElementById('rate').data.filter(one => one.error_y).map(one => one.line)"
    with visit(browser, path) as tab:
        behind, front = tab.evaluate(code)[:2], tab.evaluate(code)[2:]
        assert {(one["color"], one["dash"]) for one in behind} == {("#8a8f94", "dash")}
        assert [one["dash"] for one in front] == ["solid", "dash"]
        assert "#8a8f94" not in {one["color"] for one in front}
        assert "before" in tab.locator("#legend").inner_text()


@pytest.mark.slow
def test_a_rehearsal_behind_is_called_one_wherever_it_is_named(
    browser: Browser, tmp_path: Path
) -> None:
    run = run_of(*points({1: 10.0, 2: 19.0}))
    played = [record([[1, 2.0, 2.0]], engine="fake", devices=devices) for devices in (1, 2)]
    path = tmp_path / "index.html"
    path.write_text(page(run, over=run_of(*played, folder=Path("before"))))
    code = "document.getElementById('rate').data.filter(one => one.line?.dash === 'dash')"
    with visit(browser, path) as tab:
        assert "compared with: before (simulated)" in tab.locator("#legend").inner_text()
        (behind,) = tab.evaluate(code)
        assert all("<br>before (simulated)<br>" in text for text in behind["hovertext"])
        assert (
            "before (simulated), scripted times of the simulated engine"
            in tab.locator("#behind").inner_text()
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "kvstore"), [("alexnet", "device"), ("tiny", "device"), *slow(("alexnet", "local"))]
)
def test_a_line_has_a_gap_where_a_point_of_its_own_failed(
    browser: Browser, tmp_path: Path, network: str, kvstore: str
) -> None:
    failed = record([[1, 2.0]], status="failed", devices=2, network=network, kvstore=kvstore)
    report = made(tmp_path, *points({1: 10.0, 4: 36.0}), failed)
    with visit(browser, report / "index.html") as tab:
        (line,) = tab.evaluate("document.getElementById('rate').data.filter(one => one.error_y)")
        own = (network, kvstore) == ("alexnet", "device")
        assert line["x"] == ([1, 2, 4] if own else [1, 4])
        assert (None in line["y"]) == own
        assert line["connectgaps"] is False


def test_emulated_points_are_hollow(shown: Page) -> None:
    code = """() => document.getElementById("rate").data.flatMap(one => (one.customdata ?? []).map(
        (row, at) => [row, one.marker.color?.[at] ?? "", one.marker.line.color]))"""
    hollow = [row for row, fill, edge in shown.evaluate(code) if len(fill) > 1 and fill != edge]
    assert hollow == [3]


def test_ticks_stand_at_the_real_device_counts(shown: Page) -> None:
    for panel in PANELS:
        ticks = shown.locator(f"#{panel} .xtick text").all_text_contents()
        assert ticks == ["1", "2", "4"]


def test_networks_and_stores_are_switched_in_all_panels_at_once(opened: Page) -> None:
    assert {0, 5, 6, 10} <= drawn_rows(opened, "rate")
    opened.get_by_role("button", name="alexnet").click()
    for panel in PANELS:
        assert min(drawn_rows(opened, panel)) == 6
    dimmed = opened.locator("#legend .off").all_text_contents()
    assert dimmed == ["alexnet, local", "alexnet, dist_sync"]
    opened.get_by_role("button", name="dist_sync").click()
    for panel in PANELS:
        assert drawn_rows(opened, panel) == {6, 8, 10}
    opened.get_by_role("button", name="alexnet").click()
    assert drawn_rows(opened, "speedup") == {0, 2, 4, 6, 8, 10}


def test_axes_are_switched_between_logarithmic_and_linear(shown: Page) -> None:
    assert [axis(shown, "rate", one)["type"] for one in ("xaxis", "yaxis")] == ["log", "log"]
    shown.get_by_role("button", name="Logarithmic").click()
    for panel in ("efficiency", "windows"):
        assert axis(shown, panel)["type"] == "linear"
    for panel in ("rate", "speedup"):
        kinds = [axis(shown, panel, one)["type"] for one in ("xaxis", "yaxis")]
        assert kinds == ["linear", "linear"]
        assert shown.locator(f"#{panel} .xtick text").all_text_contents() == ["1", "2", "4"]
    shown.get_by_role("button", name="Logarithmic").click()


def test_a_drag_zooms_and_reset_undoes_it(shown: Page) -> None:
    before = axis(shown, "rate")["range"]
    shown.locator("#rate").scroll_into_view_if_needed()
    box = shown.locator("#rate .nsewdrag").first.bounding_box()
    assert box is not None
    shown.mouse.move(box["x"] + 60, box["y"] + 40)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 200, box["y"] + 160, steps=5)
    shown.mouse.up()
    shown.wait_for_function(
        f"document.getElementById('rate')._fullLayout.xaxis.range[0] !== {before[0]}"
    )
    shown.get_by_role("button", name="tiny").click()
    assert axis(shown, "rate")["range"] != before
    shown.get_by_role("button", name="tiny").click()
    shown.get_by_role("button", name="Reset zoom").click()
    assert axis(shown, "rate")["range"] == before


def test_a_double_click_shows_the_whole_of_the_axes_that_are_chosen_now(opened: Page) -> None:
    opened.get_by_role("button", name="Logarithmic").click()
    before = [axis(opened, "rate", one)["range"] for one in ("xaxis", "yaxis")]
    opened.evaluate("Plotly.relayout('rate', {'xaxis.range': [0, 2], 'yaxis.range': [0, 9]})")
    end = "document.getElementById('rate')._fullLayout.xaxis.range[1]"
    double_click(opened, "rate", f"{end} === {before[0][1]}")
    assert [axis(opened, "rate", one)["range"] for one in ("xaxis", "yaxis")] == before


def column(tab: Page, number: int) -> list[str]:
    cells = tab.locator(f"#table tbody tr:visible td:nth-child({number})")
    return [text.strip() for text in cells.all_text_contents()]


def test_the_table_is_sorted_by_numbers_up_and_down_with_empty_cells_last(opened: Page) -> None:
    head = opened.locator("#table thead th").nth(4)
    head.get_by_role("button").click()
    rates = column(opened, 5)
    assert rates[-1] == ""
    assert [float(one) for one in rates[:-1]] == sorted(float(one) for one in rates[:-1])
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").press("Enter")
    down = column(opened, 5)
    assert down[-1] == ""
    assert [float(one) for one in down[:-1]] == sorted(map(float, down[:-1]), reverse=True)
    assert head.get_attribute("aria-sort") == "descending"


def test_the_table_is_filtered_by_words(shown: Page) -> None:
    words = shown.get_by_label("Filter rows")
    words.fill("TINY dist")
    assert column(shown, 1) == ["tiny"] * 3
    assert column(shown, 2) == ["dist_sync"] * 3
    assert shown.locator("#count").inner_text() == "3 of 12 points"
    words.fill("")
    assert shown.locator("#count").inner_text() == "12 points"


def test_a_count_of_devices_is_filtered_by_as_a_whole_word(
    browser: Browser, tmp_path: Path
) -> None:
    report = made(tmp_path, *points({1: 10.0, 16: 100.0, 128: 900.0}))
    with visit(browser, report / "index.html") as tab:
        for words, counts in (("x1", ["1"]), ("ALEX X16", ["16"]), ("x12", []), ("x", [])):
            tab.get_by_label("Filter rows").fill(words)
            assert column(tab, 3) == (counts if words != "x" else ["1", "16", "128"])


def test_the_download_is_results_csv(shown: Page, report: Path) -> None:
    with shown.expect_download() as waiting:
        shown.get_by_role("button", name="Download CSV").click()
    assert waiting.value.suggested_filename == "results.csv"
    assert Path(waiting.value.path()).read_bytes() == (report / "results.csv").read_bytes()
