"""The page has no violation of axe-core's rules, in both themes and on a phone."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from plots.page.page import page
from results.run import load
from tests.support.pages.browser import points, visit
from tests.support.pages.pages import run_of
from tests.support.paths import ROOT
from tests.support.runs.steps import rows

pytestmark = pytest.mark.browser


def violations(tab: Page) -> list[str]:
    """Return each broken rule with the first element that breaks it."""
    found = Axe().run(tab).response
    assert found["passes"]
    return [f"{one['id']}: {one['nodes'][0]['target']}" for one in found["violations"]]


PHONE = pytest.param((390, 844), id="phone", marks=pytest.mark.slow)


@pytest.mark.parametrize("size", [pytest.param((1440, 900), id="desk"), PHONE])
def test_axe_core_finds_no_violation_in_either_theme(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    hosts = {"a": {"kernel": "6.1", "mxnet": "1.9.1"}, "b": {"kernel": "6.2", "mxnet": "1.9.1"}}
    run = run_of(*points(), environment={"hosts": hosts}, missing=("tiny local x8",))
    run = dataclasses.replace(run, rows=[*run.rows, *rows()])
    path = tmp_path / "index.html"
    path.write_text(page(run, over=load(ROOT / "docs" / "runs" / "demo")))
    view: Any = {"width": size[0], "height": size[1]}
    with visit(browser, path, viewport=view) as tab:
        tab.locator("#why-numbers > summary").click()
        assert violations(tab) == []
        tab.get_by_role("button", name="Dark").click()
        assert violations(tab) == []
