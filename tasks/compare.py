"""Tasks `report.compare`, `baseline`, `history` and `explain`: compare and judge."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, error_line, parse_float, quoted
from im2rec_tools.options import REQUIRED, OptionHelp
from im2rec_tools.terminal import echo
from launch.hosts import ROOT
from results.errors import StoreError
from results.run_folder import RECORDS
from tasks import report
from tasks.cli import command, read_only_command, short_path, task
from tasks.report import RUN, open_run, run_folder

if TYPE_CHECKING:  # slow imports wait until a task runs
    from results.comparison.compare import Comparison
    from results.comparison.history import HistoryEntry
    from results.run import Run
    from results.scaling import ScalingRow

REGRESSED = 4


@task(
    {
        "a": OptionHelp(
            "A", "The earlier run: name or path, baseline (or baseline:NAME), or published table"
        ),
        "b": OptionHelp("B", "The later run, in the same form"),
        "across": OptionHelp(
            "", "Compare runs whose conditions differ, each point with its most similar one"
        ),
        "fail_on": OptionHelp(
            "PERCENT",
            "Exit with 4 if a point is slower by this much or has no result in B, such as 3%",
            empty="never",
        ),
        "csv": OptionHelp("FILE", "Write the comparison to this CSV file", empty="none"),
        "markdown": OptionHelp("FILE", "Write the comparison to this Markdown file", empty="none"),
    },
    example="main candidate --fail-on 3%",
)
@command
def report_compare(c, a, b, across=False, fail_on="", csv="", markdown=""):  # type: ignore[no-untyped-def]
    """Compare two runs point by point.

    Prints the change of each point with a 95 % CI. Its verdict is improved, regressed,
    doubtful, inconclusive, missing in B or only in B. If one setting changed in every point,
    it is the heading. Exits with 2 if the runs are not comparable.
    """
    share = percentage("--fail-on", fail_on) if fail_on else None
    from plots.tables import comparison as plot
    from results.comparison.compare import compare
    from results.comparison.pairs import same_settings, same_size
    from results.store import write_text

    anyway = shlex.join(["fab", "report.compare", a, b, "--across"])
    key = same_size if across else same_settings
    found = compare(open_run(a), open_run(b), key, "" if across else anyway)
    if found.forbidding and not across:
        echo(*plot.differences(found))
        differences = ", ".join(map(str, found.forbidding))
        raise StoreError(
            error_line(
                f"{found.a.name} and {found.b.name}",
                problem=f"not comparable: {differences}",
                fix=f"Compare anyway with '{anyway}'",
            )
        )
    plot.show(found)
    for path, text in ((csv, plot.table), (markdown, plot.markdown)):
        if path:
            write_text(Path(path), text(found))
            echo(path)
    if share is not None:
        check_regressions(found, share, fail_on)


def percentage(option: str, text: str) -> float:
    """Parse a percentage such as '3%'; return it as a fraction."""
    if not text.endswith("%"):
        raise SpecError(error_line(option, expected="a percentage such as 3%", got=quoted(text)))
    value = parse_float(option, text.removesuffix("%").strip())
    if value >= 100:
        raise SpecError(error_line(option, expected="a percentage below 100%", got=quoted(text)))
    return value / 100


def check_regressions(found: Comparison, share: float, asked: str) -> None:
    """Exit with 4 if a point is slower by this fraction; count the undecided ones."""
    from results.comparison.compare import inconclusive_points, regressions

    if unseen := inconclusive_points(found, share):
        be = "is" if len(unseen) == 1 else "are"
        echo(
            f"{len(unseen)} of {len(found.changes)} points {be} inconclusive: a loss of {asked} "
            f"would not be significant. Run more repeats"
        )
    if doubtful := found.having("doubtful"):
        be, them = ("is", "it") if len(doubtful) == 1 else ("are", "them")
        echo(
            f"{len(doubtful)} of {len(found.changes)} points {be} doubtful: --fail-on does not "
            f"count {them}. Measure {them} again on an idle machine"
        )
    if bad := regressions(found, share):
        lost = sum(one.verdict == "lost" for one in bad)
        parts = [f"{len(bad) - lost} regressed by {asked} or more"] if len(bad) > lost else []
        parts += [f"{lost} without a result in B"] if lost else []
        names = ", ".join(one.trial.name for one in bad)
        raise Exit(f"{', '.join(parts)}: {names}", code=REGRESSED)


@task(
    {
        "name": OptionHelp("NAME", "Name of the baseline"),
        "run": RUN,
        "remove": OptionHelp("", "Remove the baseline"),
    },
    example="main --run monday",
    by_place=["run"],
)
@command
def report_baseline(c, name, run="", remove=False):  # type: ignore[no-untyped-def]
    """Save a run as a baseline, or remove one.

    Baselines are in results/baselines; compare later runs with them.
    """
    from results.comparison.baselines import remove as remove_baseline
    from results.comparison.baselines import save
    from results.run import load

    if not remove:
        folder = save(name, load(run_folder(run)), report.BASELINES)
        echo(f"{short_path(folder)}: saved; commit it with 'git add' to keep it with the code")
    elif run:
        raise SpecError(error_line("--remove", expected="no --run", got="one", fix="Omit --run"))
    else:
        remove_baseline(name, report.BASELINES)
        echo(f"removed {name}")


@task()
@read_only_command
def report_baselines(c):  # type: ignore[no-untyped-def]
    """List the saved baselines, including unreadable ones."""
    from results.comparison.baselines import describe, names

    for name in names(report.BASELINES):
        echo(describe(name, report.BASELINES))
    if not names(report.BASELINES):
        echo("no baseline yet; save one: fab report.baseline NAME --run RUN")


@task(
    {
        "point": OptionHelp(
            "WORDS", "Words of one point's name: 'resnet-152 dist_sync x2'", empty=REQUIRED
        ),
        "runs": OptionHelp(
            "RUNS", "Runs, baselines and paths, separated by commas", empty="all runs"
        ),
        "chart": OptionHelp("PATH", "Draw a chart to PATH.svg and PATH.png", empty="none"),
    },
    by_place=["runs"],
)
@command
def report_history(c, point="", runs="", chart=""):  # type: ignore[no-untyped-def]
    """Show one point over many runs.

    Marks the runs whose conditions changed.
    """
    from plots.tables.history import show
    from results.comparison.history import history

    found = readable_runs(runs)
    if not point:
        names = dict.fromkeys(row.trial.name for run in found for row in run.rows)
        raise SpecError(
            error_line(
                "--point",
                expected="words of one point's name",
                got="none",
                fix=f"Points: {', '.join(names)}",
            )
        )
    entries = history(found, point)
    show(entries)
    if chart:
        write_chart(entries, Path(chart))


def write_chart(entries: list[HistoryEntry], path: Path) -> None:
    """Write the chart of a point's history to PATH.svg and PATH.png."""
    from plots.figures.scaling import save
    from plots.tables.history_chart import draw

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for made in save(draw(entries), path.parent, path.name):
            echo(made)
    except OSError as error:
        raise StoreError(
            error_line(path, problem=f"cannot be written ({error.strerror})")
        ) from error


def readable_runs(names: str) -> list[Run]:
    """Load the runs of these names, or all runs; print a line for each unreadable one."""
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
            error_line(
                names or report.RUNS,
                expected="a readable run",
                got="none",
                fix="Run 'fab bench.sweep smoke'",
            )
        )
    return found


@task(
    {
        "point": OptionHelp(
            "WORDS", "Words of the points' names, such as 'alexnet x2'", empty="all"
        ),
        "run": RUN,
        "confirm": OptionHelp("", "Run the counter-experiment of the one point chosen"),
    },
    example="--point 'alexnet x2' --run monday",
    by_place=["point", "run"],
)
@command
def report_explain(c, point="", run="", confirm=False):  # type: ignore[no-untyped-def]
    """Print what bounds each point, with the evidence.

    Prints the seconds of a step by cause, what was not measured, and a counter-experiment as a
    command. Uses the runs of bench.io and bench.bandwidth that fit the points. With --confirm runs
    the command, and prints whether the step changes as the cause predicts.
    """
    from bench.settings.point_names import chosen
    from plots.items import plain_lines
    from plots.tables.explanation import explanations
    from results.explain.ceilings import ceiling_points, with_ceilings
    from results.run import load

    found, measured = load(run_folder(run)), ceiling_points(report.RUNS)
    found = replace(found, rows=[with_ceilings(row, measured) for row in found.rows])
    trials = set(chosen([row.trial for row in found.rows], point))
    rows = [row for row in found.rows if row.trial in trials]
    lines = plain_lines(explanations(found, rows))
    echo(*lines or ["no point with a throughput of training"])
    if confirm:
        _confirm(found, rows, packed=report.is_packed(run))


def _confirm(run: Run, rows: Sequence[ScalingRow], *, packed: bool) -> None:
    """Run the counter-experiment of the only row, and print its result."""
    from bench.settings.point_names import point_words
    from plots.tables.explanation import confirm_run, confirm_words, confirmation
    from results.explain.experiment import experiment
    from results.run import load

    tests = [(row, row.verdict and experiment(row.trial, row.verdict)) for row in rows]
    known = [(row, test) for row, test in tests if test]
    if len(known) != 1:
        got = f"{len(known)} of {len(rows)}"
        expected = "one point with a counter-experiment"
        fix = "Choose a point: fab report.explain WORDS --confirm"
        raise SpecError(error_line("--confirm", expected=expected, got=got, fix=fix))
    if packed or not run.location:
        problem = "a packed run, or one without a stored sweep, cannot be measured again"
        raise StoreError(error_line("--confirm", problem=problem, fix="Name a run's folder"))
    ((row, test),) = known
    trials = [one.trial for one in run.rows]
    argv = confirm_words(
        run, point_words(trials)[trials.index(row.trial)], row, test, str(run.folder)
    )
    done = subprocess.run([sys.executable, "-m", "fabric", *argv], cwd=ROOT, check=False)
    if done.returncode not in {0, report.UNSTEADY}:
        raise Exit("the counter-experiment has no result; see the lines above", code=5)
    measured = load(report.RUNS / confirm_run(run, row, test)).rows
    steps = [one.verdict.measurements.step for one in measured if one.verdict]
    before = steps[0] if test.settings else row.verdict and row.verdict.measurements.step
    if not steps or not steps[-1] or not before:
        raise Exit("the counter-experiment has no result; see the lines above", code=5)
    echo(confirmation(test, before, steps[-1]))
