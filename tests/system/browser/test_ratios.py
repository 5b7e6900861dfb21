"""The panel of ratios to another run, and costs by a price of the reader's."""

import dataclasses
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from plots.page.page import page
from results.cost.cost import costs
from results.cost.prices import Price, Prices
from tests.support.pages.browser import hover, traces, visit
from tests.support.pages.pages import run_of
from tests.support.runs.records import record
from tests.support.runs.scenes import point, three

pytestmark = pytest.mark.browser

PRICES = Prices(
    name="prices.toml", currency="USD", each=(Price(key="", pattern="*", per_hour=2.0),)
)


def test_ratios_follow_the_filters_and_show_their_intervals(
    browser: Browser, tmp_path: Path
) -> None:
    tiny = [point(n, 10.0 * n, network="tiny", devices_per_host=4) for n in (1, 2)]
    before = run_of(*three(), folder=Path("before"))
    now = run_of(*(point(n, 12.0 * n, devices_per_host=4) for n in (1, 2, 4)), *tiny)
    path = tmp_path / "index.html"
    path.write_text(page(now, over=before))
    code = "document.getElementById('ratio').data.filter(one => one.error_y).map(one => one.y)"
    with visit(browser, path) as tab:
        assert [one["rows"] for one in traces(tab, "ratio")] == [[0, 1, 2]]
        (ratios,) = [found for found in tab.evaluate(code) if found]
        assert ratios == pytest.approx([1.2, 24 / 18, 1.6])
        text = hover(tab, "ratio", 2)
        assert "ratio to before: 1.600 (95 % CI 1." in text
        assert "ratio to before: 1.600 (95 % CI 1." in hover(tab, "rate", 2)
        assert "ratio to" not in hover(tab, "rate", 3)
        low, high = tab.evaluate("document.getElementById('ratio')._fullLayout.yaxis.range")
        assert low < 1 < max(ratios) < high
        tab.locator("#ratio").focus()
        tab.keyboard.press("ArrowRight")
        assert tab.locator("#spoken").inner_text().startswith("alexnet local x1")
        assert "ratio" in tab.locator("#picture option").evaluate_all(
            "all => all.map(o => o.value)"
        )
        tab.get_by_role("button", name="alexnet").click()
        assert traces(tab, "ratio") == []
        assert tab.locator("#ratio .annotation-text").text_content() == (
            "No point drawn here is in both runs."
        )


def money(tab: Page) -> list[str]:
    """Return the column of images/USD, in the order of the table."""
    names = tab.locator("#table thead th").all_text_contents()
    place = names.index("images/USD") + 1
    found = tab.locator(f"#table tbody tr:visible td:nth-child({place})").all_text_contents()
    return [one.strip() for one in found]


def test_a_price_recomputes_the_costs_and_an_empty_field_restores_them(
    browser: Browser, tmp_path: Path
) -> None:
    one = point(1, 10.0)
    two = point(4, 30.0)
    hosts = dataclasses.replace(two.identity, hosts=("a", "b", "c"))
    failed = record([[1, 2.0]], devices=8, status="failed")
    run = run_of(one, dataclasses.replace(two, identity=hosts), failed)
    path = tmp_path / "index.html"
    path.write_text(page(run, costs(run.rows, PRICES, run.environment)))
    with visit(browser, path) as tab:
        reported = money(tab)
        assert reported == ["18.0 k", "18.0 k", ""]
        field = tab.get_by_label("USD per host and hour")
        field.fill("0.5")
        assert money(tab) == ["72.0 k", "72.0 k", ""]
        assert tab.locator("#priced").is_visible()
        assert tab.url.endswith("#price=0.5")
        field.fill("1000")
        assert money(tab) == ["36.0", "36.0", ""]
        for text in ("", "0", "-2"):
            field.fill(text)
            assert money(tab) == reported
            assert not tab.locator("#priced").is_visible()
        assert "#" not in tab.url
    with visit(browser, path, fragment="price=4&scale=linear") as tab:
        assert money(tab) == ["9.00 k", "9.00 k", ""]
    with visit(browser, path, fragment="price=<b>") as tab:
        assert money(tab) == reported
