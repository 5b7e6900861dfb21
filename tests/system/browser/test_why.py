"""The panel "Why": shares of results.csv as bars, with keys and filters."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from plots.page.page import page
from results.run import Run
from tests.support.pages.browser import visit
from tests.support.pages.pages import HOSTILE, run_of
from tests.support.runs.records import record
from tests.support.runs.steps import rows

pytestmark = pytest.mark.browser


def study() -> Run:
    """Return one device, two hosts with a busy server, and an unmeasured point."""
    bare = run_of(record([[1.0] * 6], network="tiny")).rows
    return dataclasses.replace(run_of(), rows=[*rows(), *bare])


def bars(tab: Page) -> list[str]:
    return [one.get_attribute("aria-label") or "" for one in tab.locator("#why-bars li").all()]


def test_bars_have_the_shares_and_the_evidence_by_keyboard_and_hover(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "index.html"
    run = study()
    path.write_text(page(run))
    shares = run.rows[1].verdict.shares
    assert shares["server"] > 0.3
    with visit(browser, path) as tab:
        assert bars(tab)[2] == "tiny local x1: not measured; not measured"
        widths = (
            tab.locator("#why-bars li")
            .nth(1)
            .locator(".bar span")
            .evaluate_all("all => all.map(one => [one.className, parseFloat(one.style.width)])")
        )
        assert {name: width / 100 for name, width in widths} == pytest.approx(
            {f"share-{name}": share for name, share in shares.items() if share > 0}, abs=1e-4
        )
        evidence = tab.locator("#why-evidence")
        tab.locator("#why-bars li[tabindex='0']").focus()
        tab.keyboard.press("ArrowDown")
        by_key = evidence.inner_text()
        assert "alexnet dist_sync x2: compute 50 %" in by_key
        assert "verdict server: " in by_key
        assert tab.locator("#why-bars li[tabindex='0']").count() == 1
        tab.keyboard.press("End")
        assert "tiny local x1: not measured; " in evidence.inner_text()
        tab.locator("#why-bars li").nth(1).hover()
        assert evidence.inner_text() == by_key
        tab.keyboard.press("Home")
        tab.keyboard.press("Enter")
        assert tab.locator("#which").input_value() == "0"


def test_bars_and_their_table_follow_the_switches_and_the_filter(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "index.html"
    path.write_text(page(study()))
    with visit(browser, path) as tab:
        tab.get_by_text("Shares as a table").click()
        lines = tab.locator("#why-table tbody tr")
        assert lines.nth(1).inner_text().split("\t")[:2] == ["alexnet dist_sync x2", "50 %"]
        assert set(lines.nth(2).inner_text().split("\t")[1:]) == {"not measured"}
        tab.get_by_role("button", name="dist_sync", exact=True).click()
        assert [one.split(":")[0] for one in bars(tab)] == ["alexnet local x1", "tiny local x1"]
        tab.get_by_label("Filter rows").fill("tiny")
        assert [one.split(":")[0] for one in bars(tab)] == ["tiny local x1"]
        assert lines.count() == 1
        tab.get_by_label("Filter rows").fill("nothing")
        assert tab.locator("#why-evidence").inner_text() == "All points are hidden."


def test_bars_of_a_simulation_are_marked_and_texts_are_escaped(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "index.html"
    run = study()
    trial = run.rows[2].trial.replace(kvstore=HOSTILE)
    named = dataclasses.replace(run.rows[2], trial=trial, name=trial.name)
    played = run_of(record([[1.0] * 6], engine="fake")).rows
    path.write_text(page(dataclasses.replace(run, rows=[*run.rows[:2], named, *played])))
    with visit(browser, path) as tab:
        assert HOSTILE in bars(tab)[2]
        assert tab.locator("#why script").count() == 0
    path.write_text(page(run_of(record([[1.0] * 6], engine="fake"))))
    assert "<h2>Why (SIMULATED)</h2>" in path.read_text()


def test_a_first_touch_of_a_bar_shows_its_evidence_and_a_second_one_its_point(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "index.html"
    path.write_text(page(study()))
    size: Any = {"width": 390, "height": 844}
    with visit(browser, path, viewport=size, has_touch=True) as tab:
        bar, point = tab.locator("#why-bars li").nth(2), tab.locator("#which")
        before = point.input_value()
        assert before != "2"
        bar.tap()
        assert "tiny local x1: not measured; " in tab.locator("#why-evidence").inner_text()
        assert (point.input_value(), bar.get_attribute("aria-selected")) == (before, "true")
        bar.tap()
        assert point.input_value() == "2"
