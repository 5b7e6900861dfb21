"""Downloads of the page, names of lines, and the page without scripts."""

import dataclasses
import struct
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Browser, Page

from plots.page.page import page
from plots.report import build
from results.run import load
from tests.support.pages.browser import PANELS, made, visit
from tests.support.pages.pages import HOSTILE, run_of
from tests.support.runs.records import points, record
from tests.support.runs.stores import stored

pytestmark = pytest.mark.browser


def downloaded(tab: Page, button: str) -> tuple[str, bytes]:
    """Press a button; return name and content of the file that it downloads."""
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name=button).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def texts(svg: bytes) -> list[str]:
    """Return the texts of an SVG file."""
    found = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(one.itertext()) for one in found]


def test_one_panel_or_all_are_saved_as_svg_and_png(shown: Page, report: Path) -> None:
    run = report.parent.name
    name, svg = downloaded(shown, "Download SVG")
    assert name == f"{run}-panels.svg"
    titles = [one for one in texts(svg) if one.startswith(("Throughput", "Window times"))]
    assert titles == ["Throughput", "Window times; seconds; bars: medians"]
    assert "alexnet, dist_sync" in texts(svg)
    assert not [one for one in texts(svg) if "SIMULATED" in one]
    shown.get_by_label("Picture of").select_option("efficiency")
    name, svg = downloaded(shown, "Download SVG")
    assert name == f"{run}-efficiency.svg"
    assert not [one for one in texts(svg) if one.startswith("Throughput")]
    name, png = downloaded(shown, "Download PNG")
    assert name == f"{run}-efficiency.png"
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width == 1440
    assert height > 900


@pytest.mark.slow
def test_pictures_and_tables_of_a_simulation_are_marked(browser: Browser, tmp_path: Path) -> None:
    played = [record([[1, 2.0, 2.0]], engine="fake", devices=devices) for devices in (1, 2)]
    with visit(browser, made(tmp_path, *played) / "index.html") as tab:
        name, svg = downloaded(tab, "Download SVG")
        assert "SIMULATED" in name
        marked = [one for one in texts(svg) if "SIMULATED" in one]
        assert marked[0].startswith("SIMULATED, not measured - ")
        assert len(marked) >= 1 + len(PANELS)
        assert downloaded(tab, "Download CSV")[0] == "results-SIMULATED.csv"
        name, table = downloaded(tab, "Download shown rows")
        assert name == "results-shown-SIMULATED.csv"
        assert table.count(b",fake,") == 2


@pytest.mark.slow
def test_names_of_files_and_hosts_are_text_in_pictures_and_ratios(
    browser: Browser, tmp_path: Path
) -> None:
    run = run_of(*points({1: 10.0, 2: 19.0}), environment={"processor": HOSTILE})
    strange = "</strong><script>alert(1)<b>&amp;"
    over = dataclasses.replace(run, folder=Path(strange.replace("/", "")))
    path = tmp_path / "index.html"
    path.write_text(page(run, over=over))
    with visit(browser, path) as tab:
        assert strange.replace("/", "") in tab.locator("#ratios h2").inner_text()
        found = texts(downloaded(tab, "Download SVG")[1])
    assert "".join(HOSTILE.split()) in "".join("".join(found).split())
    assert any(strange.replace("/", "") in one for one in found)


def test_the_rows_that_the_filter_shows_are_saved_as_the_table_has_them(
    browser: Browser, tmp_path: Path
) -> None:
    formulas = [f"{sign}cmd|'/c calc'!A1,\"x\"\n{HOSTILE}" for sign in ("=", "+", "-", "@")]
    bad = [
        dataclasses.replace(record([[1, 2.0]], devices=devices, status="failed"), message=text)
        for devices, text in zip((2, 4, 8, 16), formulas, strict=True)
    ]
    report = made(tmp_path, record([[1, 2.0, 2.1]]), *bad)
    with visit(browser, report / "index.html") as tab:
        whole = downloaded(tab, "Download shown rows")[1]
        assert whole == downloaded(tab, "Download CSV")[1]
        tab.locator("#table thead th").nth(2).get_by_role("button").dblclick()
        tab.get_by_label("Filter rows").fill("failed")
        name, table = downloaded(tab, "Download shown rows")
    lines = (report / "results.csv").read_text().splitlines()
    assert name == "results-shown.csv"
    assert table.decode().splitlines() == [lines[0], *reversed(lines[2:])]
    assert all("'" + text[0] in line for text, line in zip(formulas, lines[2:], strict=True))


@pytest.mark.slow
def test_lines_are_named_at_their_ends_without_overlap(browser: Browser, tmp_path: Path) -> None:
    near = [
        record([[1, 2.0 + 0.01 * n, 2.0 + 0.01 * n]], network=network, devices=devices)
        for n, network in enumerate(("alexnet", "tiny", "inception-v3"))
        for devices in (1, 2)
    ]
    report = made(tmp_path, *near)
    label = "#rate .annotation-text"
    with visit(browser, report / "index.html") as tab:
        assert sorted(tab.locator(label).all_text_contents()) == ["alexnet", "inception-v3", "tiny"]
        boxes = [one.bounding_box() for one in tab.locator(label).all()]
        tops = sorted(box["y"] for box in boxes if box)
        assert all(below - above >= 13 for above, below in pairwise(tops))
        panel = tab.locator("#rate").bounding_box()
        assert panel
        assert all(box["x"] + box["width"] <= panel["x"] + panel["width"] for box in boxes if box)
        tab.get_by_role("button", name="inception-v3").click()
        assert sorted(tab.locator(label).all_text_contents()) == ["alexnet", "tiny"]
        assert tab.locator("#windows .annotation-text").count() == 0
    with visit(browser, report / "index.html", viewport={"width": 390, "height": 844}) as tab:
        assert tab.locator(label).count() == 0


def test_a_browser_without_scripts_shows_the_static_figure(
    browser: Browser, tmp_path: Path
) -> None:
    stored(tmp_path, *points({1: 10.0, 2: 19.0}))
    build(load(tmp_path))
    context = browser.new_context(offline=True, java_script_enabled=False)
    tab = context.new_page()
    tab.goto((tmp_path / "report" / "index.html").as_uri())
    box = tab.locator("noscript svg, .static svg").first.bounding_box()
    context.close()
    assert box
    assert box["width"] > 600
    assert box["height"] > 400
