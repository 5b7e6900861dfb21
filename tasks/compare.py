"""report.compare, report.baseline, report.history: runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, parse_float, quoted
from im2rec_tools.terminal import echo
from results.errors import StoreError
from results.run_folder import RECORDS
from tasks import report
from tasks.cli import command, read_only_command, short_path, task
from tasks.report import open_run, run_folder

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from results.comparison.compare import Comparison
    from results.comparison.history import HistoryEntry
    from results.run import Run

REGRESSED = 4


@task(
    help={
        "a": "before: a run's name or path, a baseline or a published table; baseline:NAME if both",
        "b": "after: the same",
        "across": "compare runs that differ in what matters, and their most alike points",
        "fail-on": "such as 3%: exit 4 where a point regressed by as much, or lost its number",
        "csv": "a file to write the comparison to",
        "markdown": "a file to write the comparison to",
    }
)
@command
def report_compare(c, a, b, across=False, fail_on="", csv="", markdown=""):  # type: ignore[no-untyped-def]
    """Compare two runs point by point: improved, regressed or undecided."""
    share = percentage("--fail-on", fail_on) if fail_on else None
    from plots.tables import comparison as plot
    from results.comparison.compare import compare, same_settings, same_size
    from results.store import write_text

    found = compare(open_run(a), open_run(b), same_size if across else same_settings)
    if found.forbidding and not across:
        echo(*plot.differences(found))
        differences = ", ".join(map(str, found.forbidding))
        raise StoreError(
            f"{found.a.name} and {found.b.name} differ in what matters: {differences}; --across "
            f"compares them all the same"
        )
    plot.show(found)
    for path, text in ((csv, plot.table), (markdown, plot.markdown)):
        if path:
            write_text(Path(path), text(found))
            echo(path)
    if share is not None:
        check_regressions(found, share, fail_on)


def percentage(option: str, text: str) -> float:
    """The part that a percentage such as '3%' is."""
    if not text.endswith("%"):
        raise SpecError(f"{option}: expected a percentage such as 3%, got {quoted(text)}")
    value = parse_float(option, text.removesuffix("%").strip())
    if value >= 100:
        raise SpecError(f"{option}: expected a percentage below 100%, got {quoted(text)}")
    return value / 100


def check_regressions(found: Comparison, share: float, asked: str) -> None:
    """Ends with exit code 4 where a point is worse by so much; says what it could not see."""
    from results.comparison.compare import inconclusive_points, regressions

    if unseen := inconclusive_points(found, share):
        echo(
            f"{len(unseen)} of {len(found.changes)} points could have lost {asked} unseen; more "
            f"repeats see more"
        )
    if bad := regressions(found, share):
        lost = sum(one.verdict == "lost" for one in bad)
        parts = [f"{len(bad) - lost} regressed by {asked} or more"] if len(bad) > lost else []
        parts += [f"{lost} lost {'its' if lost == 1 else 'their'} number"] if lost else []
        names = ", ".join(one.trial.name for one in bad)
        raise Exit(f"{', '.join(parts)}: {names}", code=REGRESSED)


@task(
    help={
        "name": "of the baseline",
        "run": "the run to keep: name below results/runs, or a path; default: the newest",
        "remove": "remove the baseline instead",
    },
)
@command
def report_baseline(c, name, run="", remove=False):  # type: ignore[no-untyped-def]
    """Keep a run under a name below results/baselines, to compare later ones with."""
    from results.comparison.baselines import remove as remove_baseline
    from results.comparison.baselines import save
    from results.run import load

    if not remove:
        folder = save(name, load(run_folder(run)), report.BASELINES)
        echo(f"{short_path(folder)}; 'git add' keeps it with the code")
    elif run:
        raise SpecError("--remove: expected the name of a baseline, and no --run")
    else:
        remove_baseline(name, report.BASELINES)
        echo(f"removed {name}")


@task
@read_only_command
def report_baselines(c):  # type: ignore[no-untyped-def]
    """List the baselines that are kept, also those that cannot be read."""
    from results.comparison.baselines import describe, names

    for name in names(report.BASELINES):
        echo(describe(name, report.BASELINES))
    if not names(report.BASELINES):
        echo("none is kept yet; 'fab report.baseline NAME --run RUN' keeps one")


@task(
    help={
        "point": "words of one point's name: 'resnet-152 dist_sync x2'",
        "runs": "runs, baselines and paths, with commas; default: all of results/runs",
        "chart": "where to draw it, without the ending: PATH.svg and PATH.png",
    }
)
@command
def report_history(c, point="", runs="", chart=""):  # type: ignore[no-untyped-def]
    """Show one point over many runs, and where their conditions changed."""
    from plots.tables.history import show
    from results.comparison.history import history

    found = readable_runs(runs)
    if not point:
        names = dict.fromkeys(row.trial.name for run in found for row in run.rows)
        raise SpecError(f"--point: expected words of one point's name, of {', '.join(names)}")
    entries = history(found, point)
    show(entries)
    if chart:
        write_chart(entries, Path(chart))


def write_chart(entries: list[HistoryEntry], path: Path) -> None:
    """Writes the chart of a point's history to PATH.svg and PATH.png, and prints their names."""
    from plots.figures.scaling import save
    from plots.tables.history import draw

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for made in save(draw(entries), path.parent, path.name):
            echo(made)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from error


def readable_runs(names: str) -> list[Run]:
    """The runs of these names, or all there are; a line for each that cannot be read."""
    from results.run import load

    listed = [name.strip() for name in names.split(",") if name.strip()]
    paths = sorted(path.parent for path in report.RUNS.glob(f"*/{RECORDS}"))
    found = []
    for name in listed or paths:
        try:
            found.append(open_run(name) if isinstance(name, str) else load(name))
        except StoreError as error:
            echo(f"skipped: {error}")
    if not found:
        raise StoreError(
            f"{names or report.RUNS}: no run that can be read; 'fab bench.sweep' makes one"
        )
    return found
