"""The report of a run: results.csv, report.md, the page and the figure, from its records."""

from pathlib import Path
from typing import Any

from plots import figure, threads
from plots.frame import frame
from plots.lines import drawable
from plots.machine import machine
from plots.page.page import page as html
from plots.table import markdown
from results.errors import StoreError
from results.run import Run
from results.store import write_whole


def footer(run: Run) -> str:
    """The line under the figure: machine, commit, date, repeats, and what is not drawn."""
    rows = run.rows
    repeats = sorted({row.rate.repeats for row in rows if row.rate})
    n = f"n = {'-'.join(map(str, repeats))}" if repeats else ""
    drawn = drawable(rows)
    left = [row.trial.name for row in rows if row.rate and row not in drawn]
    failed = [row.trial.name for row in rows if row.rate is None]
    told = [row.trial.name for row in drawn if row.rate and row.message]
    environment = run.environment
    parts = (
        machine(environment),
        environment.get("commit") and f"commit {environment['commit']}",
        str(environment.get("date", ""))[:10],
        n,
        "bars: 95 % intervals",
    )
    text = "; ".join(part for part in parts if part)
    more = "".join(
        f"\n{word}: {', '.join(names)}"
        for word, names in (
            ("in the table only", left),
            ("failed", failed),
            ("the table says more of", told),
        )
        if names
    )
    return ("REHEARSAL - scripted times, not measurements\n" if run.rehearsal else "") + text + more


def page(run: Run) -> str:
    """The report in Markdown."""
    hidden = {"description", "points", "repeats", "hosts", "order"}
    facts = "\n".join(
        f"- {name}: {value}"
        for name, value in run.environment.items()
        if name not in hidden and value
    )
    pictures = ""
    if drawable(run.rows):
        pictures = "![images per second, speed-up, efficiency and window times](scaling.svg)\n\n"
    if threads.readings(run.rows):
        pictures += "![images per second against decoding threads](threads.svg)\n\n"
    rehearsal = (
        "**REHEARSAL**: the fake engine's scripted times on this machine, not measurements.\n\n"
    )
    description, paragraph = run.environment.get("description"), "\n\n"
    return (
        f"# {'REHEARSAL ' if run.rehearsal else ''}{run.name}\n\n"
        f"{rehearsal if run.rehearsal else ''}"
        f"{description + paragraph if description else ''}"
        f"{machine(run.environment)}\n\n{markdown(run.rows, run.missing)}\n"
        f"{pictures}"
        f"## Environment\n\n{facts}\n{_hosts(run.environment)}"
    )


def _hosts(environment: dict[str, Any]) -> str:
    """What each host of a cluster was found to be, a row each."""
    hosts = environment.get("hosts")
    if not hosts:
        return ""
    rows = [
        [
            name,
            str(len(found.get("cores", ()))),
            ", ".join(str(gpu.get("name", "GPU")) for gpu in found.get("gpus", ())) or "-",
            f"{found.get('memory_mib', 0) / 1024:.1f} GiB",
            str(found.get("python", "")),
            str(found.get("mxnet", "")),
        ]
        for name, found in hosts.items()
    ]
    header = ["host", "cores", "GPUs", "memory", "Python", "MXNet"]
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def build(run: Run) -> list[Path]:
    """Writes RUN/report/: results.csv, report.md, index.html, scaling.svg and .png; their paths.

    There is no figure where there is nothing to draw: no training point with a number. Where
    reading alone was measured with several thread counts, threads.svg and .png show it.
    """
    folder = run.folder / "report"
    try:
        folder.mkdir(exist_ok=True)
        write_whole(folder / "results.csv", frame(run.rows).to_csv(index=False))
        write_whole(folder / "report.md", page(run))
        write_whole(folder / "index.html", html(run))
        rehearsal = "REHEARSAL, not measured - " if run.rehearsal else ""
        title = f"{rehearsal}{run.name}: {run.environment.get('description') or 'scaling'}"
        images = []
        if drawable(run.rows):
            images = figure.save(figure.draw(run.rows, title, footer(run)), folder)
        if readings := threads.readings(run.rows):
            below = machine(run.environment)
            images += figure.save(threads.draw(readings, title, below), folder, "threads")
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror})") from error
    return [*(folder / name for name in ("results.csv", "report.md", "index.html")), *images]
