"""Measure the report page of large runs in headless Chromium.

Writes runs with artificial times and builds their reports. Opens each page in new tabs, and prints
page size, and milliseconds of loading and of controls as medians. A control counts until the window
shows its effect: two frames, or the drawing of the figures in it; "all figures" until those outside
the window are drawn too. CPU times are those of the main thread, for busy machines. `--over` also
builds each page over a copy of its run. Results: docs/explanation/benchmarks.md.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.scale.runs import families, timed, write_run
from results.run_folder import PAGE, RECORDS, REPORT
from tests.support.pages.browser import visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Before the scripts of the page: note when figures appear, and what blocks the main thread.
_WATCH = """
const noted = (globalThis.noted = { blocks: [] });
const note = (list) => noted.blocks.push(...list.getEntries().map((one) => one.duration));
new PerformanceObserver(note).observe({ type: "longtask", buffered: true });
const look = () => {
  const figure = document.querySelector("#efficiency .plot-container");
  if (!noted.first && figure) noted.first = performance.now();
  if (document.documentElement.dataset.ready !== "yes") requestAnimationFrame(look);
  else noted.all = performance.now();
};
requestAnimationFrame(look);
"""
_LOADING = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return [paint?.startTime ?? 0, noted.first ?? 0, noted.all, Math.max(0, ...noted.blocks)];
}"""
# Return the milliseconds of an action: until the window shows it, and until all figures do.
_TIMED = """async (action) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const boxes = [...document.querySelectorAll(".js-plotly-plot")].filter((box) => {
    const { top, bottom } = box.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  });
  const began = performance.now();
  let drawn = began;
  const note = () => (drawn = performance.now());
  for (const box of boxes) box.on("plotly_afterplot", note);
  new Function(action)();
  await frame();
  await frame();
  const shown = performance.now();
  while (document.documentElement.dataset.ready !== "yes") await frame();
  await frame();
  for (const box of boxes) box.removeListener("plotly_afterplot", note);
  return [Math.max(shown, drawn) - began, performance.now() - began];
}"""
_HOVER = """async () => {
  const box = document.getElementById("rate");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const trace = box._fullData.find(({ customdata, yaxis }) => customdata?.length && yaxis !== "y2");
  let at = Math.floor(trace.x.length / 2);
  while (trace.x[at] === null) at += 1;
  const { xaxis, yaxis } = box._fullLayout;
  const { x, y } = box.getBoundingClientRect();
  const clientX = x + xaxis._offset + xaxis.d2p(trace.x[at]);
  const clientY = y + yaxis._offset + yaxis.d2p(trace.y[at]);
  const began = performance.now();
  const move = new MouseEvent("mousemove", { clientX, clientY, bubbles: true });
  box.querySelector(".nsewdrag").dispatchEvent(move);
  while (!box.querySelector(".hoverlayer .hovertext")) await frame();
  return performance.now() - began;
}"""
_LOADS = ("first paint", "first figure", "all figures", "longest block")
_FILTER = 'const words = document.getElementById("filter"); words.value = "%s";'
_FILTER += 'words.dispatchEvent(new Event("input"));'
_CLICK = 'document.querySelector("%s").click();'
# Name, the section that is in the window, and the action.
_CONTROLS = (
    ("filter", "results", _FILTER % "resnet"),
    ("clear filter", "results", _FILTER % ""),
    ("sort", "results", _CLICK % "#table th:nth-child(5) button"),
    ("network off", "scaling", _CLICK % "#networks button"),
    ("network on", "scaling", _CLICK % "#networks button"),
    ("linear axes", "scaling", _CLICK % "#scale"),
    ("theme", "summary", _CLICK % "#theme"),
)


def samples(browser: "Browser", path: Path) -> Iterator[tuple[str, float]]:
    """Open the page in a new tab, use its controls, and yield milliseconds by name."""
    size = {"width": 1440, "height": 900}
    with visit(browser, path, before=_WATCH, viewport=size) as tab:
        tab.wait_for_function("noted.all")
        used = _main_thread(tab)
        yield from zip(_LOADS, tab.evaluate(_LOADING), strict=True)
        for name, section, action in _CONTROLS:
            _show(tab, section)
            before = used()
            shown, settled = tab.evaluate(_TIMED, action)
            yield name, shown
            if section != "results":
                yield f"{name}, all figures", settled
            yield f"{name}, CPU", used() - before
        _show(tab, "scaling")
        yield "hover", tab.evaluate(_HOVER)


def _main_thread(tab: "Page") -> Callable[[], float]:
    """Return a counter of the CPU milliseconds of the page's main thread."""
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def used() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return sum(1e3 * float(one["value"]) for one in metrics if one["name"] == "TaskDuration")

    return used


def _show(tab: "Page", section: str) -> None:
    tab.locator(f"#{section}").evaluate("one => one.scrollIntoView({behavior: 'instant'})")
    tab.wait_for_timeout(200)


def built(folder: Path, points: int, ranks: int, windows: int) -> Path:
    """Write a run and its report, if they are not there; return the run."""
    run = folder / f"{points}x{ranks}x{windows}"
    if not (run / RECORDS).exists():
        write_run(run, families(points, ranks), windows)
    if not (run / REPORT / PAGE).exists():
        timed("report.build", "--run", f"{run}/")
    return run


def built_over(run: Path) -> Path:
    """Return a copy of the run with a report over the original."""
    copy = run.with_name(f"{run.name}-over")
    if not copy.exists():
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns(REPORT))
        timed("report.build", "--run", f"{copy}/", "--over", f"{run}/")
    return copy


def measure(browser: "Browser", run: Path, repeats: int) -> None:
    """Print the medians of a page."""
    path = run / REPORT / PAGE
    found: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, value in samples(browser, path):
            found.setdefault(name, []).append(value)
    print(f"{run.name}: {path.stat().st_size / 1e6:.2f} MB, medians of {repeats}, ms")
    for name, values in found.items():
        least, middle, most = min(values), statistics.median(values), max(values)
        print(f"  {name:26} {middle:8.0f}   {least:.0f} to {most:.0f}")


def main() -> None:
    """Parse the command line, build the pages and print their times."""
    parser = argparse.ArgumentParser("python -m benchmarks.page", description=__doc__)
    parser.add_argument(
        "--points",
        metavar="N",
        type=int,
        nargs="+",
        default=[1000, 3000],
        help="Points of each run [1000 3000]",
    )
    for name, default, text in (
        ("ranks", 1, "Ranks per point"),
        ("windows", 20, "Windows per rank"),
        ("repeats", 5, "Tabs per page"),
    ):
        parser.add_argument(
            f"--{name}", metavar="N", type=int, default=default, help=f"{text} [%(default)s]"
        )
    parser.add_argument("--over", action="store_true", help="Also build each page over its copy")
    parser.add_argument(
        "--folder",
        metavar="DIR",
        type=Path,
        help="Keep the runs in this folder, and reuse them if they exist [a temporary folder]",
    )
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        folder = asked.folder or Path(scratch)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for points in asked.points:
            run = built(folder, points, asked.ranks, asked.windows)
            measure(browser, run, asked.repeats)
            if asked.over:
                measure(browser, built_over(run), asked.repeats)
        browser.close()


if __name__ == "__main__":
    main()
