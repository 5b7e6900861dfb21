"""report.*: what came out, and where the runs are."""

import os
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from invoke.exceptions import Exit
from invoke.tasks import task

from launch.hosts import ROOT
from results.errors import StoreError
from tasks.door import door
from tasks.packed import is_packed, report_beside, unpacked

UNSTEADY = 6
RUNS = ROOT / "results" / "runs"


def run_folder(name: str) -> Path:
    """The folder of a run to read: below results/runs for a name, itself for a path.

    Of a .zip, what it holds, unpacked for as long as the program runs; of '', the newest.
    """
    if name in {".", ".."}:
        raise StoreError(f"--run: expected a name or a path, got {name!r}")
    if is_packed(name):
        return unpacked(archive_of(name))
    if name:
        return Path(name) if os.sep in name else RUNS / name
    runs = sorted(RUNS.glob("*/records.jsonl"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise StoreError(f"{RUNS}: no run yet; 'fab bench.sweep' makes one")
    return runs[-1].parent


def archive_of(name: str) -> Path:
    """The .zip of that name: below results/runs where it is there, else as a path."""
    below = RUNS / name
    return below if os.sep not in name and below.is_file() else Path(name)


def new_folder(name: str) -> Path:
    """The folder of a run that is measured."""
    if is_packed(name):
        raise StoreError(f"--run {name}: a packed run cannot grow; 'fab results.unpack' it first")
    return run_folder(name)


def stamped(name: str) -> str:
    """A run name of its own for each call."""
    return f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def build_report(folder: Path) -> None:
    """Prints a run's table, writes its report and says where the files are."""
    from launch.identity import own_code
    from plots.report import build
    from plots.table import show
    from results import digest
    from results.run import load

    run = load(folder)
    show(run)
    for path in map(Path.resolve, build(run)):
        print(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    print(f"digest: {digest.write(folder, own_code())}")
    if not run.complete:
        raise Exit("some points have no number; the table says why", code=5)
    if any(row.status == "unstable" for row in run.rows):
        raise Exit("some points did not become steady; the table says which", code=UNSTEADY)


@task(help={"run": "name below results/runs, or a path; default: the newest"})
@door
def report_build(c, run=""):  # type: ignore[no-untyped-def]
    """Write a run's results.csv, report.md and figure, and print its table."""
    folder = run_folder(run)
    with report_beside(archive_of(run), folder) if is_packed(run) else nullcontext():
        build_report(folder)


@task(help={"run": "name below results/runs, or a path; default: the newest"})
@door
def report_show(c, run=""):  # type: ignore[no-untyped-def]
    """Print a run's table."""
    from plots.table import show
    from results.run import load

    show(load(run_folder(run)))
