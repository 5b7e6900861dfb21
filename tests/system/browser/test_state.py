"""The address of the page has its view, and a strange address does no harm."""

from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import axis, drawn_rows, visit

pytestmark = pytest.mark.browser

HOSTILE_PARTS = (
    "hide-network=__proto__",
    "hide-kvstore=constructor",
    f"hide-network={quote('<img src=x onerror=alert(1)>')}",
    "sort=__proto__",
    "sort=toString",
    "order=%E0%A4%A",
    "scale=%",
    f"point={quote('<script>alert(1)</script>')}",
    "point=__proto__",
    "theme=javascript:alert(1)",
    f"filter={'x' * 100_000}",
    "&&=&=%00&" + "a=1&" * 2_000,
)


def follow(tab: Page, fragment: str) -> None:
    """Go to another fragment of the same page, as a reader who pastes a link does."""
    tab.evaluate(
        """fragment => new Promise(done => {
        addEventListener("hashchange", () => done(), {once: true});
        location.hash = fragment;
    })""",
        fragment,
    )


def view(tab: Page) -> dict[str, object]:
    """Return what the controls show."""
    found: dict[str, object] = tab.evaluate("""() => ({
        off: [...document.querySelectorAll('.group [aria-pressed=false]')].map(b => b.textContent),
        sort: [...document.querySelectorAll('#table th')].map(h => h.getAttribute('aria-sort')),
        rows: [...document.querySelectorAll('#table tbody tr:not([hidden])')]
            .map(row => row.dataset.row),
        filter: document.getElementById('filter').value,
        point: document.getElementById('which').value,
        theme: document.documentElement.dataset.theme ?? '',
    })""")
    return found | {"drawn": drawn_rows(tab, "rate"), "scale": axis(tab, "rate")["type"]}


def test_a_link_shows_the_same_view_in_another_browser(browser: Browser, report: Path) -> None:
    path = report / "index.html"
    with visit(browser, path) as tab:
        plain = view(tab)
        assert "#" not in tab.url
        tab.get_by_role("button", name="alexnet").click()
        tab.get_by_role("button", name="local").click()
        tab.get_by_role("button", name="Logarithmic").click()
        tab.locator("#table thead th").nth(4).get_by_role("button").dblclick()
        tab.get_by_label("Filter rows").fill("tiny & x2 %")
        tab.get_by_label("Filter rows").fill("TINY")
        tab.locator("#which").select_option("tiny dist_sync x2")
        tab.get_by_role("button", name="Dark").click()
        link, chosen = tab.url, view(tab)
        assert parse_qs(urlsplit(link).fragment) == {
            "hide-network": ["alexnet"],
            "hide-kvstore": ["local"],
            "scale": ["linear"],
            "sort": ["images/s"],
            "order": ["descending"],
            "filter": ["TINY"],
            "point": ["tiny dist_sync x2"],
            "theme": ["dark"],
        }
        assert chosen["drawn"] == {7, 9, 11}
    other = {"width": 1280, "height": 720}
    with visit(browser, path, fragment=urlsplit(link).fragment, viewport=other) as tab:
        assert view(tab) == chosen
        # Undoing each control leaves the address of the plain page.
        for name in ("alexnet", "local", "Logarithmic"):
            tab.get_by_role("button", name=name).click()
        assert "hide" not in tab.url
        assert "scale" not in tab.url
        follow(tab, "filter=")
        assert view(tab) == plain


def test_parts_of_a_strange_address_are_ignored_one_by_one(opened: Page) -> None:
    plain = view(opened)
    for part in HOSTILE_PARTS:
        follow(opened, f"scale=linear&hide-network=tiny&hide-network=vgg&{part}")
        found = view(opened)
        assert found["scale"] == "linear", part
        assert found["off"] == ["tiny", "Logarithmic"], part
        assert found["drawn"] == {0, 1, 2, 3, 4, 5}, part
        same = ("sort", "rows", "filter", "point", "theme")
        assert {name: found[name] for name in same} == {name: plain[name] for name in same}, part
    before = view(opened)
    follow(opened, "results")  # a section, not a view
    assert view(opened) == before


def test_a_page_opens_with_a_strange_address(browser: Browser, report: Path) -> None:
    path = report / "index.html"
    with visit(browser, path, fragment="&".join(HOSTILE_PARTS)) as tab:
        assert view(tab)["off"] == []
