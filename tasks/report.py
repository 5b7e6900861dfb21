"""report.*: what came out, and where the runs are."""

import os
from datetime import UTC, datetime
from pathlib import Path

from invoke.exceptions import Exit
from invoke.tasks import task

from launch.hosts import ROOT
from results.errors import StoreError
from tasks.door import door

UNSTEADY = 6
RUNS = ROOT / "results" / "runs"


def run_folder(name: str) -> Path:
    """The folder of a run: below results/runs for a name, itself for a path, the newest for ''."""
    if name in {".", ".."}:
        raise StoreError(f"--run: expected a name or a path, got {name!r}")
    if name:
        return Path(name) if os.sep in name else RUNS / name
    runs = sorted(RUNS.glob("*/records.jsonl"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise StoreError(f"{RUNS}: no run yet; 'fab bench.sweep' makes one")
    return runs[-1].parent


def stamped(name: str) -> str:
    """A run name of its own for each call."""
    return f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def build_report(folder: Path) -> None:
    """Prints a run's table, writes its report and says where the files are."""
    from plots.report import build
    from plots.table import show
    from results.run import load

    run = load(folder)
    show(run)
    for path in build(run):
        print(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    if not run.complete:
        raise Exit("some points have no number; the table says why", code=5)
    if any(row.status == "unstable" for row in run.rows):
        raise Exit("some points did not become steady; the table says which", code=UNSTEADY)


@task(help={"run": "name below results/runs, or a path; default: the newest"})
@door
def report_build(c, run=""):  # type: ignore[no-untyped-def]
    """Write a run's results.csv, report.md, page and figures, and print its table."""
    build_report(run_folder(run))


@task(help={"run": "name below results/runs, or a path; default: the newest"})
@door
def report_show(c, run=""):  # type: ignore[no-untyped-def]
    """Print a run's table."""
    from plots.table import show
    from results.run import load

    show(load(run_folder(run)))
