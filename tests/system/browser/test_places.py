"""The page in Chromium: point details, dark mode, phone, paper, hostile hosts."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from plots.page.page import page
from results.run import load
from tests.support.pages.browser import PANELS, double_click, hover, made, rows_of_csv, visit
from tests.support.pages.pages import HOSTILE, hostile, run_of, unpacked
from tests.support.paths import ROOT
from tests.support.runs.records import record

pytestmark = pytest.mark.browser


def test_a_point_shows_its_windows_and_its_slowest_rank(shown: Page) -> None:
    shown.locator("#which").select_option("alexnet dist_sync x4")
    said = shown.locator("#ranks-note").inner_text()
    assert "Slowest: rank 2 on slow, 1.9 s" in said
    code = "id => document.getElementById(id).data[0]"
    series = shown.evaluate(code, "series")
    assert series["x"] == [1, 2, 3, 4, 5]
    assert series["y"] == pytest.approx([9.9, 2.2, 2.31, 2.09, 2.255])
    assert series["marker"]["color"][0] != series["marker"]["color"][1]
    assert "warm-up" in series["hovertext"][0]
    assert shown.evaluate(code, "ranks")["x"] == [0, 1, 2, 3]
    assert "worker-0 (and 3 more workers, alike)" in shown.locator("#replay").inner_text()


@pytest.mark.slow
def test_long_windows_that_do_not_count_lie_above_the_figure(
    browser: Browser, tmp_path: Path
) -> None:
    report = made(tmp_path, record([[300.0, 2.0, 2.2]]), record([[5.0, 2.0, 2.1]], devices=2))
    end = "document.getElementById('series')._fullLayout.yaxis.range[1]"
    with visit(browser, report / "index.html") as tab:
        tab.locator("#which").select_option("alexnet local x1")
        said = tab.locator("#series-note")
        assert "1 excluded window is off scale, at 300 s" in said.inner_text()
        assert 2.2 < tab.evaluate(end) < 3
        double_click(tab, "series", f"{end} > 300")
        double_click(tab, "series", f"{end} < 3")
        tab.locator("#which").select_option("alexnet local x2")
        assert tab.evaluate(end) > 5
        assert said.inner_text() == ""


def test_a_point_without_a_number_says_so_where_its_windows_would_be(shown: Page) -> None:
    shown.locator("#which").select_option("tiny dist_sync x4")
    assert "no result" in shown.locator("#series-note").inner_text()
    assert "failed; broken" in shown.locator("#about").inner_text()


def test_a_click_on_a_point_shows_it_below(opened: Page) -> None:
    hover(opened, "rate", 8)
    # Plotly looks where the mouse is a few times a second, and forgets a click in between.
    opened.evaluate("() => new Promise(done => setTimeout(done, 200))")
    opened.mouse.down()
    opened.mouse.up()
    opened.wait_for_function("document.getElementById('which').value === '8'")
    assert opened.locator("#about").inner_text().startswith("tiny local x2")


def test_a_command_is_copied(shown: Page) -> None:
    shown.locator("#which").select_option("alexnet dist_sync x4")
    shown.get_by_role("button", name="Copy").first.click()
    shown.get_by_role("button", name="Copied").wait_for()
    text = shown.evaluate("navigator.clipboard.readText()")
    assert text == "python -m bench.train_imagenet --rank 0"


def test_dark_follows_the_system_and_the_button_and_paper_is_light(
    browser: Browser, report: Path
) -> None:
    with visit(browser, report / "index.html", color_scheme="dark") as tab:
        paper = "getComputedStyle(document.body).backgroundColor"
        ink = "document.getElementById('rate')._fullLayout.font.color"
        dark = tab.evaluate(f"[{paper}, {ink}]")
        tab.get_by_role("button", name="Light").click()
        light = tab.evaluate(f"[{paper}, {ink}]")
        assert (dark[0], light[0]) == ("rgb(21, 24, 27)", "rgb(255, 255, 255)")
        assert dark[1] != light[1]
        tab.get_by_role("button", name="Dark").click()
        tab.emulate_media(media="print")
        ink = "getComputedStyle(document.body).color"
        assert tab.evaluate(ink) == "rgb(28, 30, 33)"


def places(tab: Page, *parts: str) -> list[Any]:
    return [tab.locator(part).bounding_box() for part in parts]


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desk", "phone"])
def test_tiles_sentences_and_the_efficiency_are_on_the_first_screen(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    path = tmp_path / "index.html"
    path.write_text(page(load(ROOT / "docs" / "runs" / "demo")))
    view: Any = {"width": size[0], "height": size[1]}
    with visit(browser, path, viewport=view) as tab:
        tile, words, figure = places(tab, "#tiles li:last-child", "#summary > ul", "#efficiency")
        assert tab.locator("#summary .caveat [aria-label=Caveat]").count() == 2
        assert tile["y"] + tile["height"] < words["y"]
        assert words["y"] + words["height"] < size[1]
        if size[0] > 1000:
            assert figure["y"] + figure["height"] < size[1]
        else:
            assert words["y"] < figure["y"] < size[1] - 60


def test_a_phone_scrolls_no_page_sideways(browser: Browser, report: Path) -> None:
    size: Any = {"width": 390, "height": 844}
    with visit(browser, report / "index.html", viewport=size, has_touch=True) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        tops = [tab.locator(f"#{panel}").bounding_box() for panel in PANELS]
        assert len({box["y"] for box in tops if box}) == 4
        assert all(box["width"] <= 390 for box in tops if box)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page whose table has all columns, with the longest texts."""
    found = []
    for devices in (1, 16, 256):
        fields: dict[str, Any] = {"devices": devices, "devices_per_host": 16, "device": "gpu"}
        fields |= {"network": "inception-v3", "batch_per_device": 512}
        fields["kvstore"] = "device" if devices == 1 else "dist_device_sync"
        windows = [[3, 1.0, 1.1, 1.05]] * max(1, devices // 16)
        found += [record(windows, repeat=repeat, **fields) for repeat in range(3)]
    return made(tmp_path_factory.mktemp("wide"), *found) / "index.html"


@pytest.mark.slow
def test_all_columns_of_the_table_fit_on_a_laptop(browser: Browser, wide: Path) -> None:
    size: Any = {"width": 1280, "height": 900}
    with visit(browser, wide, viewport=size) as tab:
        names = tab.locator("#table thead th").all_text_contents()
        assert {"95 % CI", "speed-up", "vs 1 worker", "status"} <= set(names)
        last = tab.locator("#table thead th").last
        last.get_by_role("button").click()
        box = last.bounding_box()
        assert box
        assert box["x"] + box["width"] <= 1232


def test_a_phone_shows_throughput_efficiency_and_status_without_a_swipe(
    browser: Browser, wide: Path
) -> None:
    size: Any = {"width": 390, "height": 844}
    with visit(browser, wide, viewport=size) as tab:
        shown = [one.inner_text() for one in tab.locator("#table thead th:visible").all()]
        kept = ["network", "kvstore", "devices", "images/s", "efficiency", "status"]
        assert shown == kept
        cells = tab.locator("#table tbody tr:last-child td:visible").all()
        boxes = [one.bounding_box() for one in cells]
        assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
        assert "%" in cells[4].inner_text()
        tab.get_by_role("button", name="All columns").click()
        assert tab.get_by_role("columnheader", name="speed-up").count() == 1
        network, status = (
            tab.locator(f"#table tbody tr:first-child td:{one}-child") for one in ("first", "last")
        )
        tab.locator("#table").evaluate("table => (table.parentElement.scrollLeft = 9999)")
        ends = [one.bounding_box() for one in (network, status)]
        assert [box and 0 <= box["x"] < 390 for box in ends] == [True, True]


def test_it_prints(shown: Page) -> None:
    paper = shown.pdf(format="A4")
    assert paper.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) >= 2


@pytest.fixture
def paper(shown: Page) -> Iterator[Page]:
    shown.emulate_media(media="print")
    yield shown
    shown.emulate_media(media="screen")


def test_paper_keeps_the_legend_with_its_panels(paper: Page) -> None:
    for part in ("#scaling", "#legend", ".panels"):
        style = f"getComputedStyle(document.querySelector('{part}')).breakInside"
        assert paper.evaluate(style) == "avoid"


def test_the_head_of_a_long_table_can_be_repeated_on_each_sheet(paper: Page) -> None:
    style = "getComputedStyle(document.querySelector('#table %s'))"
    head, cell, button = (style % name for name in ("thead", "thead th", "thead button"))
    found = paper.evaluate(f"[{head}.display, {head}.breakInside, {cell}.position]")
    assert found == ["table-header-group", "avoid", "static"]
    assert paper.evaluate(f"{button}.display") == "contents"  # else Chromium does not


def test_what_hosts_say_is_shown_and_not_run(browser: Browser, tmp_path: Path) -> None:
    good, bad = hostile(record([[1, 2.0, 2.1]])), record([[1, 2.0]], devices=2, status="failed")
    hosts = {HOSTILE: {HOSTILE: HOSTILE}, "b": {HOSTILE: "other"}}
    run = run_of(good, hostile(bad), environment={"description": HOSTILE, "hosts": hosts})
    path = tmp_path / "index.html"
    path.write_text(page(run, over=dataclasses.replace(run, folder=Path("a<b>"))))
    with visit(browser, path) as tab:
        assert "".join(HOSTILE.split()) in "".join(hover(tab, "rate", 1).split())
        assert tab.locator("#differing thead th").nth(1).inner_text() == HOSTILE
        assert HOSTILE in tab.locator("#replay").inner_text()
        assert "a<b>" in tab.locator("#legend").inner_text()


def test_a_run_without_a_good_point_is_still_shown(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(page(run_of(record([[1, 2.0]], status="lost"))))
    with visit(browser, path) as tab:
        assert "lost: broken" in hover(tab, "rate", 0)
        assert not tab.locator("#series").is_visible()
        assert "The run recorded no commands" in tab.locator("#replay").inner_text()


def test_hover_of_the_committed_run_shows_what_it_committed(
    browser: Browser, tmp_path: Path
) -> None:
    demo = ROOT / "docs" / "runs" / "demo"
    path = tmp_path / "index.html"
    path.write_text(page(load(demo)))
    assert unpacked(path.read_text(), "data")["run"]["name"] == "demo"
    rows = rows_of_csv(demo / "report")
    place = next(at for at, row in enumerate(rows) if row["speedup_device"] not in {"", "1.0"})
    with visit(browser, path) as tab:
        held = float(rows[place]["images_per_second"])
        assert f"images/s: {held:.6g}" in hover(tab, "rate", place)


@pytest.mark.slow
def test_a_browser_that_cannot_unpack_shows_the_static_figure_and_the_tables(
    browser: Browser, tmp_path: Path
) -> None:
    demo = ROOT / "docs" / "runs" / "demo"
    path = tmp_path / "index.html"
    path.write_text(page(load(demo), static=(demo / "report" / "scaling.svg").read_text))
    tab = browser.new_context(offline=True).new_page()
    tab.add_init_script("delete globalThis.DecompressionStream")
    tab.goto(path.as_uri())
    tab.wait_for_selector("#static svg")
    assert "too old to draw figures" in tab.locator("#static").inner_text()
    assert tab.locator("#table tbody tr").count() == len(rows_of_csv(demo / "report"))
    tab.context.close()
