"""The points of a figure are reached by keyboard, with the details of hover."""

import pytest
from playwright.sync_api import Page

from tests.support.pages.browser import PANELS, hover

pytestmark = pytest.mark.browser


def label(tab: Page, panel: str) -> str:
    """Return the label that a panel shows now."""
    found = tab.locator(f"#{panel} .hoverlayer .hovertext").first
    found.wait_for()
    return found.text_content() or ""


def spoken(tab: Page) -> str:
    return tab.locator("#spoken").inner_text()


def test_arrow_keys_move_between_points_with_the_details_of_hover(opened: Page) -> None:
    details = {row: hover(opened, "rate", row) for row in (0, 2, 3)}
    opened.mouse.move(0, 0)
    opened.locator("#reset").focus()
    below = [panel for panel in PANELS if panel != "efficiency"]  # that is on the first screen
    for panel in below:
        opened.keyboard.press("Tab")
        assert opened.evaluate("document.activeElement.id") == panel
    for _ in below[1:]:
        opened.keyboard.press("Shift+Tab")
    assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    opened.keyboard.press("ArrowRight")
    assert label(opened, "rate") == details[0]
    assert spoken(opened).startswith("alexnet local x1; images/s: ")
    ring = opened.locator(".ring").bounding_box()
    opened.keyboard.press("ArrowRight")
    opened.wait_for_function("document.getElementById('spoken').textContent.includes('local x2')")
    opened.wait_for_timeout(100)  # Plotly shows at most one label per 50 ms
    assert label(opened, "rate") == details[2]
    moved = opened.locator(".ring").bounding_box()
    assert ring
    assert moved
    assert moved["x"] > ring["x"] + 20
    opened.keyboard.press("ArrowDown")
    assert spoken(opened).startswith("alexnet dist_sync x2")
    opened.keyboard.press("Home")
    assert spoken(opened).startswith("alexnet dist_sync x1")
    opened.keyboard.press("End")
    assert spoken(opened).startswith("alexnet dist_sync x4")
    opened.keyboard.press("ArrowRight")  # there is no further point
    assert spoken(opened).startswith("alexnet dist_sync x4")
    opened.keyboard.press("Enter")
    assert opened.locator("#which").input_value() == "5"
    assert opened.evaluate("document.activeElement.id") == "which"
    assert opened.locator(".ring").count() == 0


def test_every_panel_and_failed_points_have_keys_and_escape_leaves(opened: Page) -> None:
    for panel in PANELS:
        opened.locator(f"#{panel}").focus()
        opened.keyboard.press("ArrowRight")
        assert spoken(opened).startswith("alexnet local x1")
        around, ring = (opened.locator(one).bounding_box() for one in (f"#{panel}", ".ring"))
        assert around
        assert ring
        assert around["x"] < ring["x"] < around["x"] + around["width"]
        assert around["y"] - 11 < ring["y"] < around["y"] + around["height"]
        opened.keyboard.press("Escape")
        assert spoken(opened) == ""
        assert opened.locator(".ring").count() == 0
    opened.locator("#rate").focus()
    for key in ("ArrowRight", *["ArrowDown"] * 9):
        opened.keyboard.press(key)
    assert "failed: broken" in spoken(opened)
    opened.get_by_role("button", name="tiny").click()
    assert spoken(opened) == ""
