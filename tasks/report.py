"""report.*: what came out, and where the runs are."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit
from invoke.tasks import task

from launch.hosts import ROOT
from results.errors import StoreError
from tasks.door import door

if TYPE_CHECKING:
    from results.run import Run

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


def drawn_behind(name: str) -> "Run":
    """The run that --over names: a run's name or a path."""
    from results.run import load

    try:
        return load(run_folder(name))
    except StoreError as error:
        raise StoreError(f"--over: {error}") from error


def build_report(folder: Path, over: str = "", extra: Sequence[str] = ()) -> None:
    """Prints a run's table, writes its report and says where the files are.

    `over` names another run to draw behind, `extra` what else of plots.report.EXTRA to write.
    """
    from plots.report import EXTRA, build
    from plots.table import show
    from results.run import load

    run = load(folder)
    behind = drawn_behind(over) if over else None
    show(run)
    _say(build(run, behind))
    for name in extra:
        _say(EXTRA[name](run))
    if not run.complete:
        raise Exit("some points have no number; the table says why", code=5)
    if any(row.status == "unstable" for row in run.rows):
        raise Exit("some points did not become steady; the table says which", code=UNSTEADY)


def _say(paths: Sequence[Path]) -> None:
    for path in paths:
        print(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


@task(
    help={
        "run": "name below results/runs, or a path; default: the newest",
        "over": "another run, by name or path, to draw behind this one",
        "upstream-csv": "also upstream's two-column CSV, a file a network",
        "parquet": "also results.parquet; needs pyarrow",
    }
)
@door
def report_build(c, run="", over="", upstream_csv=False, parquet=False):  # type: ignore[no-untyped-def]
    """Write a run's results.csv, report.md and figure, and print its table."""
    asked = {"upstream-csv": upstream_csv, "parquet": parquet}
    build_report(run_folder(run), over, [name for name, wanted in asked.items() if wanted])


@task(help={"run": "name below results/runs, or a path; default: the newest"})
@door
def report_show(c, run=""):  # type: ignore[no-untyped-def]
    """Print a run's table."""
    from plots.table import show
    from results.run import load

    show(load(run_folder(run)))
