"""Tasks `report.*`: build, print and verify reports; the folders of runs."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, error_line, parse_int, quoted, unknown
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import echo
from launch.hosts import ROOT
from results.errors import StoreError
from results.run_folder import ORIGIN, RECORDS
from tasks.cli import command, no_cycle_search, read_only_command, short_path, task

if TYPE_CHECKING:  # slow imports wait until a task runs
    from plots.failures import Failures
    from results.cost.cost import Costs
    from results.cost.prices import Prices
    from results.run import Run

UNSTEADY = 6
RUNS = ROOT / "results" / "runs"
PRICES = ROOT / "prices.toml"
RUN = OptionHelp("RUN", "Name below results/runs, or a path", empty="the newest run")
# For a task that needs one.
RUN_REQUIRED = OptionHelp("RUN", "Name below results/runs, or a path")
_PRICES = OptionHelp(
    "FILE", "File with the price of an hour of each host", empty="prices.toml if it exists"
)
SPEEDUP_BASELINE = OptionHelp(
    "POINT", "Also report speed-ups against this point of each network: 'KVSTORE xN'", empty="none"
)
_WIDE = OptionHelp("", "Print all columns of the table, and explain them")
_NOTES = OptionHelp("", "Print the notes on each point in full, not only their numbers")
BASELINES = ROOT / "results" / "baselines"
_MOST_LINES = 200
# The study that the shipped sweep `seed` repeats.
PUBLISHED = "tutorial"


def run_folder(name: str) -> Path:
    """Return the folder of a run by its name below results/runs, or by its path.

    A .zip is unpacked for as long as the program runs; '' is the newest run.
    """
    if name in {".", ".."}:
        raise StoreError(error_line("--run", expected="a name or a path", got=quoted(name)))
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
        raise StoreError(
            error_line(RUNS, expected="a run", got="none", fix="Run 'fab bench.sweep smoke'")
        )
    return runs[-1].parent


def run_name(folder: Path) -> str:
    """Return the --run of a folder: its name below results/runs, or else its path."""
    return folder.name if folder.parent == RUNS else str(folder)


def open_run(name: str) -> Run:
    """Open a run by its path, or by the name of a run, baseline or published table."""
    from results.comparison.baselines import open_run
    from results.run import load

    if os.sep in name:
        return load(run_folder(name))
    return open_run(name, RUNS, BASELINES)


def is_packed(name: str) -> bool:
    """Whether this --run is a .zip file."""
    return name.endswith(".zip")


def archive_of(name: str) -> Path:
    """Return a .zip file by its name below results/runs, or else by its path."""
    below = RUNS / name
    return below if os.sep not in name and below.is_file() else Path(name)


def new_folder(name: str) -> Path:
    """Return the folder of a run to write; StoreError for a packed run."""
    if is_packed(name):
        raise StoreError(
            error_line(
                "--run",
                expected="a folder",
                got=f"the packed run {name}",
                fix=f"Run 'fab results.unpack {name}'",
            )
        )
    return run_folder(name)


def timestamped_name(name: str) -> str:
    """Return a run name with the date and time (UTC)."""
    return f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def prices_of(file: str) -> Prices | None:
    """Load a file's prices; '' is the checkout's prices.toml, None without one."""
    from results.cost.prices import load_prices

    path = Path(file) if file else PRICES
    return load_prices(path) if file or path.exists() else None


def costs_of(run: Run, prices: Prices | None) -> Costs:
    """Return the costs of a run's points at these prices."""
    from results.cost.cost import costs

    return costs(run.rows, prices, run.environment)


def overlay_run(name: str) -> Run:
    """Open the run of --over: a run, a baseline, a published table or a path."""
    try:
        return open_run(name)
    except StoreError as error:
        raise StoreError(error_line("--over", problem=str(error))) from error


@no_cycle_search()
def build_report(
    folder: Path,
    prices: str = "",
    over: str = "",
    extra: Sequence[str] = (),
    baseline: str = "",
    parts: Collection[str] = (),
) -> None:
    """Print a run's table, write its report and print the paths of the files.

    over      another run to draw behind this one
    extra     further outputs, of plots.report.EXTRA
    baseline  the speed-up baseline 'KVSTORE xN'
    parts     additions to the short table: 'wide', 'notes'
    """
    from launch.install import own_code
    from plots.failures import Failures
    from plots.figures.pictures import drawing
    from plots.report import EXTRA, build, choice
    from plots.tables.scaling import show
    from results.integrity import digest
    from results.prediction.calibration import load_predictions
    from results.run import load, with_baseline

    given, run = prices_of(prices), with_baseline(load(folder), baseline)
    costs = costs_of(run, given)
    behind = with_baseline(overlay_run(over), baseline) if over else None
    failures, predicted = Failures(), load_predictions(folder, run.rows)
    with drawing(run, behind, predicted) as drawn, ThreadPoolExecutor(1) as beside:
        files, code = beside.submit(digest.files, folder), beside.submit(own_code)
        failures.attempt("table", lambda: show(run, costs, failures, parts), None)
        _print_paths(build(run, costs, behind, failures, predicted, drawn=drawn))
        for name in extra:
            _print_paths(failures.attempt(f"--{name}", partial(EXTRA[name], run, costs), []))
    built = choice(run, baseline, over, predicted.lines)
    echo(f"digest: {digest.write(folder, code.result(), files.result(), given, built)}")
    _exit_by_result(run, failures)


def _given(**options: bool) -> list[str]:
    """Return the names of the options that are given."""
    return [name.replace("_", "-") for name, is_given in options.items() if is_given]


def checked_baseline(text: str) -> str:
    """Return --speedup-baseline as reports print it; SpecError if malformed."""
    from results.speedup import parse_baseline

    return str(parse_baseline(text)) if text else ""


def _exit_by_result(run: Run, failures: Failures) -> None:
    """Exit with 5 for an incomplete run, 6 for points without a steady state."""
    if failures.lines:
        lines = "; ".join(dict.fromkeys(failures.lines))
        fix = (
            "This is a bug in mxscale: report it with the archive of "
            f"'fab results.pack {run.folder}'"
        )
        line = error_line(f"report of {run.name}", problem=lines, fix=fix)
        raise Exit(f"error: {line}", code=1)
    if run.troubles:
        raise Exit(
            "some of the run is unreadable; the lines above the table name the parts", code=5
        )
    if not all(row.rate for row in run.rows):
        raise Exit("some points have no result; the reasons are below the table", code=5)
    if run.missing:
        raise Exit("some runs are not measured yet; they are listed below the table", code=5)
    if any(row.status == "unstable" for row in run.rows):
        raise Exit(
            "some points reached no steady state; their notes are below the table", code=UNSTEADY
        )


def _print_paths(paths: Sequence[Path]) -> None:
    for path in map(Path.resolve, paths):
        echo(short_path(path))


@task(
    {
        "run": RUN,
        "prices": _PRICES,
        "over": OptionHelp(
            "RUN",
            "Also draw this run in the figures: a run, a baseline, a published table or a path",
            empty="none",
        ),
        "speedup_baseline": SPEEDUP_BASELINE,
        "upstream_csv": OptionHelp("", "Also write upstream's two-column CSV, one per network"),
        "parquet": OptionHelp("", "Also write results.parquet; needs 'make exports'"),
        "wide": _WIDE,
        "notes": _NOTES,
    },
    example="--run monday --over baseline:main",
    by_place=["run"],
)
@command
def report_build(  # type: ignore[no-untyped-def]
    c,
    run="",
    prices="",
    over="",
    speedup_baseline="",
    upstream_csv=False,
    parquet=False,
    wide=False,
    notes=False,
):
    """Build a run's report; print its table and digest.

    The report has a table, figures and an HTML page. Exits with 5 if a point has no result, 6 if a
    point reached no steady state.
    """
    baseline, folder = checked_baseline(speedup_baseline), run_folder(run)
    extra = _given(upstream_csv=upstream_csv, parquet=parquet)
    if not is_packed(run):
        build_report(folder, prices, over, extra, baseline, _given(wide=wide, notes=notes))
        return
    from results.integrity.archive import report_beside

    with report_beside(archive_of(run), folder):
        build_report(folder, prices, over, extra, baseline, _given(wide=wide, notes=notes))


@task(
    {
        "run": RUN,
        "prices": _PRICES,
        "speedup_baseline": SPEEDUP_BASELINE,
        "reference": OptionHelp(
            "NAME",
            "Print a published table instead of a run; without NAME the tutorial's",
            empty="off",
        ),
        "wide": _WIDE,
        "notes": _NOTES,
    },
    optional=["reference"],
    example="--run monday",
    by_place=["run"],
)
@read_only_command
@no_cycle_search()
def report_show(  # type: ignore[no-untyped-def]
    c, run="", prices="", speedup_baseline="", reference="", wide=False, notes=False
):
    """Print the table of a run or of a published study.

    Exits with 5 if a point has no result, 6 if a point reached no steady state.
    """
    baseline = checked_baseline(speedup_baseline)
    if reference:
        if run:
            raise SpecError(
                error_line("--reference", expected="a run or a published table", got="both")
            )
        if baseline:
            raise SpecError(
                error_line("--speedup-baseline", expected="a run", got="a published table")
            )
        from plots.tables.reference import show as show_published

        show_published(PUBLISHED if reference is True else reference)
        return
    from plots.failures import Failures
    from plots.tables.scaling import show
    from results.run import load, with_baseline

    given, found = prices_of(prices), with_baseline(load(run_folder(run)), baseline)
    failures = Failures()
    show(found, costs_of(found, given), failures, _given(wide=wide, notes=notes))
    _exit_by_result(found, failures)


_NETWORK = OptionHelp("NAMES", "Networks, with commas between them", empty="all")
_OUTPUT = OptionHelp("FILE", "File to write")
_PANELS = "Panel: throughput, speedup, efficiency, step, budget or prediction"


def _paper_run(run: str, baseline: str, network: str) -> Run:
    """Open a run for a paper, with the points of these networks only."""
    from plots.figures.paper import of_networks
    from results.run import load, with_baseline

    chosen = checked_baseline(baseline)
    names = [one.strip() for one in network.split(",") if one.strip()]
    return of_networks(with_baseline(load(run_folder(run)), chosen), names)


@task(
    {
        "run": RUN,
        "panel": OptionHelp("NAME", _PANELS),
        "network": _NETWORK,
        "width": OptionHelp("WIDTH", "Width of the figure in mm, cm or in"),
        "format": OptionHelp("NAME", "Format: pdf, svg or png", empty="that of --output, else pdf"),
        "linear": OptionHelp("", "Use linear axes instead of logarithmic ones"),
        "speedup_baseline": replace(
            SPEEDUP_BASELINE,
            text="Draw speed-ups against this point of each network: 'KVSTORE xN'",
            empty="1 device",
        ),
        "output": replace(_OUTPUT, empty="report/paper/PANEL.FORMAT in the run"),
    },
    by_place=["run"],
    example="--run monday --panel efficiency --width 88mm",
)
@command
def report_figure(  # type: ignore[no-untyped-def]
    c,
    run="",
    panel="throughput",
    network="",
    width="88mm",
    format="",
    linear=False,
    speedup_baseline="",
    output="",
):
    """Draw one panel for a paper, with its caption.

    Fonts are embedded, and PNG has 300 dpi. Prints the caption, and writes it beside the figure:
    -caption.txt is plain text, -caption.tex a LaTeX figure.
    """
    from plots.figures import paper

    paper.check_panel(panel)
    inches, form = paper.parse_width(width), paper.parse_format(format, output)
    if is_packed(run) and not output:
        fix = "Name a file with --output"
        raise SpecError(error_line("--output", problem="a packed run has no folder", fix=fix))
    found = _paper_run(run, speedup_baseline, network)
    figure = paper.draw(found, panel, inches, linear)
    path = Path(output).expanduser() if output else _paper_file(found, panel, form)
    text = paper.caption(found, panel, linear)
    _print_paths(paper.save(figure, text, path))
    echo(text)


def _paper_file(run: Run, panel: str, form: str) -> Path:
    """Return the file of a figure below the run's report."""
    from results.run_folder import PAPER, REPORT

    return run.folder / REPORT / PAPER / f"{panel}.{form}"


@task(
    {
        "run": RUN,
        "format": OptionHelp("NAME", "Format: latex, markdown or csv"),
        "network": _NETWORK,
        "speedup_baseline": replace(
            SPEEDUP_BASELINE,
            text="Print efficiencies against this point of each network: 'KVSTORE xN'",
            empty="1 device",
        ),
        "output": replace(_OUTPUT, empty="print the table"),
    },
    by_place=["run"],
    example="--run monday --format latex",
)
@command
def report_table(  # type: ignore[no-untyped-def]
    c,
    run="",
    format="latex",
    network="",
    speedup_baseline="",
    output="",
):
    """Print a short table of a run for a paper.

    It has the training points only.
    """
    from plots.tables.publication import FORMATS
    from results.store import write_text

    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    text = FORMATS[format](_paper_run(run, speedup_baseline, network))
    if not output:
        echo(*text.splitlines())
        return
    path = Path(output).expanduser()
    write_text(path, text, "--output")
    _print_paths([path])


@task(
    {
        "run": RUN,
        "devices": OptionHelp("N", "Devices to predict; doublings before it too", empty="none"),
        "efficiency": OptionHelp(
            "PERCENT", "Print the most devices that keep this efficiency: 90%", empty="none"
        ),
        "batch": OptionHelp("N", "Batch per device to predict", empty="that of the points"),
        "bandwidth": OptionHelp(
            "BITS", "Bandwidth of each host's network: 25Gb, 200Mb", empty="not limited"
        ),
        "servers": OptionHelp(
            "N", "Servers, each on a host of its own", empty="as the points have them"
        ),
        "point": OptionHelp("WORDS", "Use only points with these words or settings", empty="all"),
        "up_to": OptionHelp("N", "Use only points on at most this many devices", empty="all"),
    },
    example="--run monday --devices 512",
    by_place=["run"],
)
@command
def report_predict(  # type: ignore[no-untyped-def]
    c,
    run="",
    devices="",
    efficiency="",
    batch="",
    bandwidth="",
    servers="",
    point="",
    up_to="",
):
    """Predict the throughput on more devices.

    Prints 80 % and 95 % prediction intervals, what limits them, and which point to measure next.
    Writes report/predictions.csv and .jsonl; 'fab report.build' draws them and scores them once
    their points are measured.
    """
    from bench.settings.parts import MOST_DEVICES
    from plots.tables import predictions
    from results.explain.ceilings import ceiling_points
    from results.prediction import calibration, forecast, limits
    from results.prediction.series import series_of
    from results.run import load

    number = partial(_optional_int, most=MOST_DEVICES)
    count, most, share = number("--devices", devices), number("--up-to", up_to), None
    if efficiency:
        share = limits.parse_efficiency(efficiency)
    elif count is None:
        fix = "Give one of them, such as --devices 512"
        raise SpecError(
            error_line("report.predict", expected="--devices or --efficiency", got="none", fix=fix)
        )
    link = limits.parse_bandwidth(bandwidth) if bandwidth else None
    given = limits.Limits(link=link, servers=number("--servers", servers))
    found = load(run_folder(run)) if not run or is_packed(run) else open_run(run)
    chosen = series_of(found.rows, point, most, number("--batch", batch))
    if count is not None:
        for one in chosen:
            forecast.check_devices(one, count)
    lines: list[calibration.StoredPrediction] = []
    alone = ceiling_points(RUNS)
    for one in chosen:
        known = limits.limits_of(found.rows, one, given, alone)
        known = forecast.plausible(one, known, given)
        if count is not None:
            lines += predictions.show(one, count, known)
        if share is not None:
            largest = forecast.largest_count(one, share, known)
            echo(predictions.count_sentence(one, share, largest))
    folder = found.folder
    if is_packed(run) or not (folder / RECORDS).is_file() or (folder / ORIGIN).is_file():
        echo(*predictions.calibration(calibration.scored(lines, found.rows)))
        return
    _print_paths(calibration.add(folder, lines))
    kept = calibration.load_predictions(folder, found.rows)
    _print_paths([predictions.save(folder, kept)] if kept.scored else [])
    echo(*predictions.calibration(kept))


def _optional_int(option: str, text: str, most: int) -> int | None:
    """Parse an option's value as a whole number from 1; None if it is not given."""
    return parse_int(option, text, 1, most) if text else None


def _digest(text: str) -> str:
    found = text.strip().lower()
    if found and not re.fullmatch(r"(sha256:)?[0-9a-f]{64}", found):
        raise SpecError(
            error_line("--digest", expected="'sha256:' and 64 hex digits", got=f"{text!r:.80}")
        )
    return f"sha256:{found.removeprefix('sha256:')}" if found else ""


@task(
    {
        "run": RUN,
        "digest": OptionHelp(
            "DIGEST", "Digest that 'fab report.build' printed: sha256:...", empty="none"
        ),
        "prices": replace(_PRICES, empty="the prices of the report"),
        "over": OptionHelp(
            "RUN",
            "Run that was given to 'fab report.build --over'",
            empty="needed unless it is a published table",
        ),
    },
    example="--run monday",
    by_place=["run"],
)
@read_only_command
def report_verify(c, run="", digest="", prices="", over=""):  # type: ignore[no-untyped-def]
    """Verify a run and its report against the raw events.

    Recomputes every cell of the report from the events in the logs, or without logs from the
    recorded window times. Use --digest to detect deliberate changes too. Exits with 2 if a value
    or a file differs.
    """
    from plots.check import verify_report
    from results.store import how_to_end, writing_process

    expected, folder = _digest(digest), run_folder(run)
    given = prices_of(prices) if prices else None
    if not folder.is_dir():
        fix = "'fab results.list' lists the runs"
        raise StoreError(error_line(folder, expected="a run folder", got="none", fix=fix))
    if process := writing_process(folder):
        problem = f"a sweep (process {process}) is writing to it"
        raise StoreError(error_line(folder, problem=problem, fix=how_to_end(process)))
    result = verify_report(folder, expected, given, overlay_run(over) if over else None)
    # An archive is unpacked to a folder that nobody knows.
    shown = run if run.endswith(".zip") else folder
    for line in result.wrong[:_MOST_LINES]:
        echo(f"WRONG: {line}")
    if len(result.wrong) > _MOST_LINES:
        echo(f"WRONG: {len(result.wrong) - _MOST_LINES} more differences")
    for line in result.unchecked:
        echo(f"not checked: {line}")
    for line in result.lacking:
        echo(line)
    echo(f"digest: {result.digest}")
    echo(
        f"recomputed: {result.windows} windows of {result.ranks} ranks from their events, "
        f"{result.rows} rows of results.csv"
    )
    if not expected:
        echo(
            "no --digest given: this detects accidents only, because somebody could have changed "
            "the records and built the report again"
        )
    if result.wrong:
        fix = "docs/reference/verification.md has the fix of each WRONG line above"
        line = error_line(shown, problem="failed verification", fix=fix)
        raise Exit(f"error: {line}", code=2)
    if result.lacking and expected:
        problem = "part of its report was not checked"
        line = error_line(shown, problem=problem, fix="See the lines above")
        raise Exit(f"error: {line}", code=2)
    echo("verified: everything checked is correct")
