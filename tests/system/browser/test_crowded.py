"""Panels of many points: few traces, and one path per kind of mark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import (
    PANELS,
    drawn_rows,
    hover,
    made,
    number,
    ready,
    rows_of_csv,
    traces,
    visit,
)
from tests.support.runs.records import record

pytestmark = pytest.mark.browser

BATCHES, COUNTS = range(1, 28), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report of 540 points: 27 lines in each of two networks."""
    found = [
        record(
            [[9.0, *(scale * (one + batch / 99) for one in (1.0, 1.1, 1.2))]],
            network=network,
            devices=devices,
            kvstore="device",
            batch_per_device=batch,
        )
        for network, scale in (("alexnet", 1), ("tiny", 40))
        for batch in BATCHES
        for devices in COUNTS
    ]
    return made(tmp_path_factory.mktemp("large"), *found)


@pytest.fixture(scope="module")
def crowded(browser: Browser, large: Path) -> Iterator[Page]:
    with visit(browser, large / "index.html") as tab:
        yield tab


def marks(tab: Page, panel: str) -> int:
    """Return the number of marks that the page itself draws, without error bars."""
    code = """id => [...document.querySelectorAll(`#${id} .marks path`)]
        .filter(one => !one.style.fill.includes("none"))
        .map(one => one.getAttribute("d").split("M").length - 1).reduce((a, b) => a + b, 0)"""
    found: int = tab.evaluate(code, panel)
    return found


def test_lines_of_equal_looks_are_one_trace_with_all_their_points(crowded: Page) -> None:
    points = 2 * len(BATCHES) * len(COUNTS)
    for panel in PANELS:
        assert drawn_rows(crowded, panel) - {None} == set(range(points))
    assert len(traces(crowded, "rate")) == 8  # 4 dashes for each network, not 54 lines
    assert len(traces(crowded, "windows")) == 4
    for panel, each in (("rate", 1), ("speedup", 1), ("efficiency", 1), ("windows", 4)):
        assert crowded.locator(f"#{panel} .point").count() == 0
        assert marks(crowded, panel) == each * points
    ends = crowded.evaluate("document.getElementById('rate').data.map(one => [one.x, one.y])")
    assert all((x is None) == (y is None) for xs, ys in ends for x, y in zip(xs, ys, strict=True))


def test_points_of_a_crowded_panel_have_hover_keys_and_clicks(crowded: Page, large: Path) -> None:
    rows = rows_of_csv(large)
    for row in (0, 10, 280):
        assert f"images/s: {number(rows[row]['images_per_second']):.6g}" in hover(
            crowded, "rate", row
        )
    assert "window" in hover(crowded, "windows", 259)
    crowded.mouse.move(0, 0)
    crowded.locator("#rate").focus()
    spoken = crowded.locator("#spoken")
    for key, text in (
        ("ArrowRight", "(batch_per_device 1)"),
        ("End", "alexnet device x10"),
        ("ArrowRight", "alexnet device x10"),  # its line ends
        ("ArrowDown", "(batch_per_device 5)"),  # of the same trace
    ):
        crowded.keyboard.press(key)
        assert text in spoken.inner_text()
    crowded.keyboard.press("Enter")
    assert "x10" in crowded.locator("#about").inner_text()


def test_a_panel_of_fewer_points_has_the_marks_of_plotly_again(crowded: Page) -> None:
    crowded.get_by_role("button", name="tiny").click()
    ready(crowded)
    assert max(drawn_rows(crowded, "rate") - {None}) == 269
    assert crowded.locator("#rate .point").count() == 270
    assert marks(crowded, "rate") == 0
    crowded.get_by_role("button", name="tiny").click()
    ready(crowded)
    assert marks(crowded, "rate") == 540


def test_marks_have_the_symbols_of_the_legend(crowded: Page) -> None:
    code = "document.getElementById('rate').data.map(one => one.x.length)"
    assert max(crowded.evaluate(code)) > 10
    shapes = crowded.locator("#rate .marks path").evaluate_all(
        "all => all.flatMap(one => one.getAttribute('d').match(/m[^M]*z/g) ?? [])"
    )
    legend = crowded.locator("#legend svg path:last-child").evaluate_all(
        "all => all.map(one => one.getAttribute('d').replace('M20 7', ''))"
    )
    assert {*shapes} == {one for one in legend if one.endswith("z")}
    assert len({*shapes}) == 12


def test_marks_move_with_a_zoom(crowded: Page) -> None:
    code = "document.querySelector('#rate .marks path').getAttribute('d')"
    before = crowded.evaluate(code)
    crowded.evaluate("Plotly.relayout('rate', {'xaxis.range': [0, 0.5]})")
    assert crowded.evaluate(code) != before
    crowded.get_by_role("button", name="Reset zoom").click()
    ready(crowded)
    assert crowded.evaluate(code) == before


def test_points_stay_beside_their_number_of_devices(crowded: Page) -> None:
    for trace in traces(crowded, "rate"):
        for x in filter(None, trace["x"]):
            assert min(abs(x / count - 1) for count in COUNTS) < 0.07


def test_a_picture_of_a_crowded_panel_has_its_marks(crowded: Page) -> None:
    crowded.get_by_label("Picture of").select_option("speedup")
    with crowded.expect_download() as waiting:
        crowded.get_by_role("button", name="Download SVG").click()
    text = Path(waiting.value.path()).read_text()
    assert text.count("<path") > 2 * 540  # marks and error bars
    assert "alexnet, 7 lines" in text


_COLUMNS = """() => {
    const rows = [...document.querySelectorAll("#table tr")];
    for (const row of rows) row.style.contentVisibility = "visible";
    const edge = (cell) => cell.getBoundingClientRect().right;
    const heads = [...rows[0].children].map(edge);
    const cells = rows.flatMap((row) => [...row.children]);
    const apart = Math.max(...cells.map((one) => Math.abs(edge(one) - heads[one.cellIndex])));
    const cut = cells.filter((one) => one.scrollWidth > one.clientWidth);
    for (const row of rows) row.style.contentVisibility = "";
    return [apart, cut.map((one) => one.textContent)];
}"""


def test_columns_of_a_long_table_are_straight_and_as_wide_as_their_texts(crowded: Page) -> None:
    apart, cut = crowded.evaluate(_COLUMNS)
    assert apart < 1
    assert cut == []


def test_rows_of_a_long_table_are_laid_out_in_view_and_its_head_stays(crowded: Page) -> None:
    last = crowded.locator("#table tbody tr").last
    is_laid_out = "row => row.cells[0].checkVisibility({contentVisibilityAuto: true})"
    crowded.locator("#results").scroll_into_view_if_needed()
    box = crowded.locator("#results .long")
    box.evaluate("box => box.scrollTo(0, 0)")
    crowded.wait_for_timeout(200)
    assert not last.evaluate(is_laid_out)
    box.evaluate("box => box.scrollTo(0, box.scrollHeight)")
    crowded.wait_for_timeout(100)
    assert last.evaluate(is_laid_out)
    head, place = crowded.locator("#table th").first.bounding_box(), box.bounding_box()
    assert head is not None
    assert place is not None
    assert abs(head["y"] - place["y"]) < 3


@pytest.mark.parametrize("paper", [False, True])
def test_phones_and_paper_have_the_long_table_of_the_browser(
    browser: Browser, large: Path, paper: bool
) -> None:
    size = {"width": 1440 if paper else 420, "height": 800}
    with visit(browser, large / "index.html", viewport=size) as tab:
        if paper:
            tab.emulate_media(media="print")
        display = "row => getComputedStyle(row).display"
        assert tab.locator("#table tbody tr").last.evaluate(display) == "table-row"
