"""report.*: what came out, and where the runs are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, quoted
from im2rec_tools.terminal import echo
from launch.hosts import ROOT
from results.errors import StoreError
from results.run_folder import RECORDS
from tasks.cli import command, read_only_command, short_path, task

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from plots.failures import Failures
    from results.cost.cost import Costs
    from results.cost.prices import Prices
    from results.run import Run

UNSTEADY = 6
RUNS = ROOT / "results" / "runs"
PRICES = ROOT / "prices.toml"
_RUN = "name below results/runs, or a path; default: the newest"
_PRICES = "file with what an hour of a host costs; default: prices.toml, where there is one"
SPEEDUP_BASELINE = "'KVSTORE xN': give speed-ups against this point of each network too"
BASELINES = ROOT / "results" / "baselines"
_MOST_LINES = 200
# The study that the shipped sweep `seed` repeats.
PUBLISHED = "tutorial"


def run_folder(name: str) -> Path:
    """The folder of a run to read: below results/runs for a name, itself for a path.

    Of a .zip, what it holds, unpacked for as long as the program runs; of '', the newest.
    """
    if name in {".", ".."}:
        raise StoreError(f"--run: expected a name or a path, got {quoted(name)}")
    if is_packed(name):
        from results.integrity.archive import unpacked

        return unpacked(archive_of(name))
    if name:
        folder = Path(name) if os.sep in name else RUNS / name
        from results.store import check_name

        check_name(folder)
        return folder
    runs = sorted(RUNS.glob(f"[!.]*/{RECORDS}"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise StoreError(f"{RUNS}: no run yet; 'fab bench.sweep' makes one")
    return runs[-1].parent


def open_run(name: str) -> Run:
    """The run of a path, or of the name of a run, a baseline or a published table."""
    from results.comparison.baselines import open_run
    from results.run import load

    if os.sep in name:
        return load(run_folder(name))
    return open_run(name, RUNS, BASELINES)


def is_packed(name: str) -> bool:
    """Whether what --run was given is a .zip."""
    return name.endswith(".zip")


def archive_of(name: str) -> Path:
    """The .zip of that name: below results/runs where it is there, else as a path."""
    below = RUNS / name
    return below if os.sep not in name and below.is_file() else Path(name)


def new_folder(name: str) -> Path:
    """The folder of a run that is measured."""
    if is_packed(name):
        raise StoreError(f"--run {name}: a packed run cannot grow; 'fab results.unpack' it first")
    return run_folder(name)


def timestamped_name(name: str) -> str:
    """A run name of its own for each call."""
    return f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def prices_of(file: str) -> Prices | None:
    """The prices in this file; of the checkout's prices.toml for '', None where there is none."""
    from results.cost.prices import load_prices

    path = Path(file) if file else PRICES
    return load_prices(path) if file or path.exists() else None


def costs_of(run: Run, prices: Prices | None) -> Costs:
    """What the points of a run cost by these prices."""
    from results.cost.cost import costs

    return costs(run.rows, prices, run.environment)


def overlay_run(name: str) -> Run:
    """What --over names: a run, a baseline, a published table or a path."""
    try:
        return open_run(name)
    except StoreError as error:
        raise StoreError(f"--over: {error}") from error


def build_report(
    folder: Path,
    prices: str = "",
    over: str = "",
    extra: Sequence[str] = (),
    baseline: str = "",
) -> None:
    """Prints a run's table, writes its report and says where the files are.

    `over` names another run to draw behind, `extra` what else of plots.report.EXTRA to write,
    `baseline` the point 'KVSTORE xN' that speed-ups are against.
    """
    from launch.install import own_code
    from plots.failures import Failures
    from plots.report import EXTRA, build, choice
    from plots.tables.scaling import show
    from results.integrity import digest
    from results.run import load, with_baseline

    given = prices_of(prices)
    run = with_baseline(load(folder), baseline)
    costs = costs_of(run, given)
    behind = with_baseline(overlay_run(over), baseline) if over else None
    failures = Failures()
    with ThreadPoolExecutor(1) as beside:  # to read gigabytes takes as long as to draw
        files = beside.submit(digest.files, folder)
        show(run, costs, failures)
        _print_paths(build(run, costs, behind, failures))
        for name in extra:
            _print_paths(failures.attempt(f"--{name}", partial(EXTRA[name], run, costs), []))
    built = choice(run, baseline, over)
    echo(f"digest: {digest.write(folder, own_code(), files.result(), given, built)}")
    _exit_by_result(run, failures)


def checked_baseline(text: str) -> str:
    """What --speedup-baseline was given, as reports write it; SpecError for what is none."""
    from results.speedup import parse_baseline

    return str(parse_baseline(text)) if text else ""


def _exit_by_result(run: Run, failures: Failures) -> None:
    """Ends the program with its code where the run is not whole or not steady."""
    if failures.lines:
        lines = "; ".join(dict.fromkeys(failures.lines))
        raise Exit(
            f"error: report of {run.name}: {lines}. This is a bug in mxscale: report it with the "
            f"archive that 'fab results.pack {run.folder}' makes",
            code=1,
        )
    if run.troubles:
        raise Exit("some of the run could not be read; the table says what", code=5)
    if not all(row.rate for row in run.rows):
        raise Exit("some points have no number; the table says why", code=5)
    if run.missing:
        raise Exit("not all is measured yet; the table says what is missing", code=5)
    if any(row.status == "unstable" for row in run.rows):
        raise Exit("some points did not become steady; the table says which", code=UNSTEADY)


def _print_paths(paths: Sequence[Path]) -> None:
    for path in map(Path.resolve, paths):
        echo(short_path(path))


@task(
    help={
        "run": _RUN,
        "prices": _PRICES,
        "over": "a run, a baseline, a published table or a path, to draw behind this one",
        "speedup_baseline": SPEEDUP_BASELINE,
        "upstream-csv": "also upstream's two-column CSV, a file a network",
        "parquet": "also results.parquet; needs what 'make exports' installs",
    }
)
@command
def report_build(  # type: ignore[no-untyped-def]
    c, run="", prices="", over="", speedup_baseline="", upstream_csv=False, parquet=False
):
    """Write a run's report: table, words, figures and page; print the table and a digest."""
    baseline = checked_baseline(speedup_baseline)
    folder = run_folder(run)
    asked = {"upstream-csv": upstream_csv, "parquet": parquet}
    extra = [name for name, wanted in asked.items() if wanted]
    if not is_packed(run):
        build_report(folder, prices, over, extra, baseline)
        return
    from results.integrity.archive import report_beside

    with report_beside(archive_of(run), folder):
        build_report(folder, prices, over, extra, baseline)


@task(
    help={
        "run": _RUN,
        "prices": _PRICES,
        "speedup_baseline": SPEEDUP_BASELINE,
        "reference": "instead of a run: a published table, by default the tutorial's",
    },
    optional=["reference"],
)
@read_only_command
def report_show(  # type: ignore[no-untyped-def]
    c, run="", prices="", speedup_baseline="", reference=""
):
    """Print a run's table, or a published one."""
    baseline = checked_baseline(speedup_baseline)
    if reference:
        if run:
            raise SpecError("--reference: expected a run or a published table, got both")
        if baseline:
            raise SpecError("--speedup-baseline: expected a run, got a published table")
        from plots.tables.reference import show as show_published

        show_published(PUBLISHED if reference is True else reference)
        return
    from plots.failures import Failures
    from plots.tables.scaling import show
    from results.run import load, with_baseline

    given, found = prices_of(prices), with_baseline(load(run_folder(run)), baseline)
    failures = Failures()
    show(found, costs_of(found, given), failures)
    _exit_by_result(found, failures)


def _digest(text: str) -> str:
    found = text.strip().lower()
    if found and not re.fullmatch(r"(sha256:)?[0-9a-f]{64}", found):
        raise SpecError(f"--digest: expected sha256: and 64 hex digits, got {text!r:.80}")
    return f"sha256:{found.removeprefix('sha256:')}" if found else ""


@task(
    help={
        "run": "name below results/runs, or a path; default: the newest",
        "digest": "what 'fab report.build' printed: sha256:...",
        "prices": "file with prices; default: those that the report was built with",
        "over": "the run that the report was built over; default: a published table is found",
    }
)
@read_only_command
def report_verify(c, run="", digest="", prices="", over=""):  # type: ignore[no-untyped-def]
    """Check a run against its digest, and every cell of its report against the raw events."""
    from plots.check import verify_report
    from results.store import writing_process

    expected, folder = _digest(digest), run_folder(run)
    given = prices_of(prices) if prices else None
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such run folder; 'fab results.list' shows those there are")
    if process := writing_process(folder):
        raise StoreError(f"{folder}: a sweep (process {process}) is writing there; wait for it")
    result = verify_report(folder, expected, given, overlay_run(over) if over else None)
    for line in result.wrong[:_MOST_LINES]:
        echo(f"WRONG: {line}")
    if len(result.wrong) > _MOST_LINES:
        echo(f"WRONG: {len(result.wrong) - _MOST_LINES} more places")
    for line in result.unchecked:
        echo(f"not checked: {line}")
    for line in result.lacking:
        echo(line)
    echo(f"digest: {result.digest}")
    echo(
        f"derived again: {result.windows} windows of {result.ranks} ranks from their events, "
        f"{result.rows} rows of results.csv"
    )
    if not expected:
        echo(
            "without a --digest from elsewhere this finds accidents: somebody could have changed "
            "all of it and built the report again"
        )
    if result.wrong:
        raise Exit(f"error: {folder}: is not as it has to be, the lines above say where", code=2)
    if result.lacking and expected:
        raise Exit(f"error: {folder}: not all of its report was checked, see above", code=2)
    echo("all that was checked holds")
