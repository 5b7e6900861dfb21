"""A report page in Chromium, its run, and the content of its figures."""

import csv
import dataclasses
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from playwright.sync_api import Browser, Dialog, Page, Request, TimeoutError

from plots.page.page import page
from plots.results_csv import results_frame
from results.record import Record
from results.run import load
from results.run_folder import PAGE, TABLE
from tests.support.runs.records import record
from tests.support.runs.stores import stored

PANELS = ("rate", "speedup", "efficiency", "windows")


@contextmanager
def visit(
    browser: Browser, path: Path, before: str = "", fragment: str = "", **fields: Any
) -> Iterator[Page]:
    """Open the page offline and wait for its figures; fail on browser errors.

    `before` is a script that runs before those of the page, `fragment` that of its address.
    """
    trouble: list[str] = []

    def asked(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            trouble.append(request.url)

    def asks(dialog: Dialog) -> None:
        trouble.append(dialog.message)
        dialog.dismiss()

    listeners: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: trouble.append(f"{message.type}: {message.text}"),
        "pageerror": lambda error: trouble.append(str(error)),
        "requestfailed": lambda request: trouble.append(f"failed: {request.url:.200}"),
        "request": asked,
        "dialog": asks,
    }
    plain = not (before or fields)
    free = _FREE.setdefault(browser, [])
    tab = free.pop() if plain and free else _new_tab(browser, before, **fields)
    for event, listener in listeners.items():
        tab.on(event, listener)
    # A page that is open stays if its fragment alone changes.
    tab.goto("about:blank")
    tab.goto(f"{path.as_uri()}#{fragment}" if fragment else path.as_uri())
    ready(tab)
    yield tab
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    if plain:
        tab.mouse.move(0, 0)
        free.append(tab)
    else:
        tab.context.close()
    assert trouble == []


def ready(tab: Page) -> None:
    """Wait until all figures show the page's present view."""
    # A selector would search a large page again and again.
    tab.wait_for_function("document.documentElement?.dataset.ready === 'yes'", timeout=60_000)


# A used tab draws the next page in a third of the CPU time.
_FREE: WeakKeyDictionary[Browser, list[Page]] = WeakKeyDictionary()


def _new_tab(browser: Browser, before: str, **fields: Any) -> Page:
    context = browser.new_context(offline=True, **fields)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    tab.add_init_script(before)
    return tab


def double_click(tab: Page, figure: str, until: str) -> None:
    """Double-click a figure until this expression holds.

    On a busy machine the two clicks can be too far apart for Plotly, so several tries are needed.
    """
    for _ in range(10):
        tab.wait_for_timeout(400)  # otherwise it counts as a third click
        tab.locator(f"#{figure} .nsewdrag").first.dblclick()
        try:
            tab.wait_for_function(until, timeout=5_000)
        except TimeoutError:
            continue
        return
    raise AssertionError(f"no double click of #{figure} made true: {until}")


def reported(folder: Path) -> Path:
    """Build the report of `points`."""
    return made(folder, *points())


def made(folder: Path, *records: Record) -> Path:
    """Write page and table of a report of these records; return their folder."""
    stored(folder, *records)
    run = load(folder)
    report = folder / "report"
    report.mkdir()
    (report / PAGE).write_text(page(run))
    (report / TABLE).write_text(results_frame(run.rows).to_csv(index=False))
    return report


def number(text: str) -> float:
    """Return a cell of results.csv; NaN if it is empty."""
    try:
        return float(text)
    except ValueError:
        return nan


def points() -> list[Record]:
    """Return two networks with and without servers, on 1 to 4 devices.

    One point failed, one is oversubscribed.
    """
    found = []
    for scale, network in ((1.0, "alexnet"), (3.0, "tiny")):
        fields = {"network": network, "devices_per_host": 4}
        for devices in (1, 2, 4):
            seconds = [scale * one for one in (9.0, 2.0, 2.1, 1.9, 2.05)]
            more: dict[str, Any] = {**fields, "devices": devices}
            servers = {**more, "kvstore": "dist_sync"}
            broken = devices == 4 and network == "tiny"
            status = "failed" if broken else "ok"
            workers = [[1.1 * one for one in seconds]] * devices
            found += [record([seconds], **more), record(workers, **servers, status=status)]
    found[3] = dataclasses.replace(found[3], emulated=True)
    slow = dataclasses.replace(found[5].ranks[2], own_seconds=(1.9,), host="slow")
    ranks = [dataclasses.replace(one, own_seconds=(1.2,)) for one in found[5].ranks]
    commands = {f"worker-{n}": f"python -m bench.train_imagenet --rank {n}" for n in range(4)}
    ranks[2] = slow
    found[5] = dataclasses.replace(found[5], ranks=tuple(ranks), commands=commands)
    return found


def rows_of_csv(report: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((report / "results.csv").read_text())))


def traces(tab: Page, panel: str) -> list[dict[str, Any]]:
    """Return a panel's lines of this run, those with row numbers."""
    code = """id => document.getElementById(id).data.filter(one => one.customdata?.length).map(
        one => ({x: one.x, rows: one.customdata, yaxis: one.yaxis ?? "y"}))"""
    found: list[dict[str, Any]] = tab.evaluate(code, panel)
    return found


def drawn_rows(tab: Page, panel: str) -> set[int]:
    return {row for trace in traces(tab, panel) for row in trace["rows"]}


def hover(tab: Page, panel: str, row: int) -> str:
    """Return the hover label of a row's point."""
    code = """([id, row]) => {
        const box = document.getElementById(id);
        for (const trace of box._fullData) {
            const at = (trace.customdata ?? []).indexOf(row);
            if (at < 0) continue;
            const {xaxis, [trace.yaxis === "y2" ? "yaxis2" : "yaxis"]: yaxis} = box._fullLayout;
            const {x, y} = box.getBoundingClientRect();
            return [x + xaxis._offset + xaxis.d2p(trace.x[at]),
                    y + yaxis._offset + yaxis.d2p(trace.y[at])];
        }
    }"""
    tab.locator(f"#{panel}").scroll_into_view_if_needed()
    x, y = tab.evaluate(code, [panel, row])
    label = tab.locator(f"#{panel} .hoverlayer .hovertext").first
    tab.mouse.move(0, 0)
    label.wait_for(state="detached")  # the label of an earlier point
    tab.mouse.move(x, y - 1)
    tab.mouse.move(x, y)
    label.wait_for()
    return label.text_content() or ""


def axis(tab: Page, panel: str, name: str = "xaxis") -> Any:
    code = "([id, name]) => { const a = document.getElementById(id)._fullLayout[name];"
    return tab.evaluate(f"{code} return {{type: a.type, range: a.range}}; }}", [panel, name])
