"""The budget of a step: a stacked bar per point."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from bench.errors import error_line
from bench.settings.point_names import point_names
from plots.figures.labels import matplotlib_text
from plots.figures.model import TRAINING
from plots.format import significant
from results.errors import StoreError
from results.explain.verdict import SHARES
from results.run import Run
from results.scaling import ScalingRow

# Colors of plots/page/page.css: Okabe and Ito's palette. Hatches distinguish parts in a gray print.
COLOURS = {
    "compute": "#BBBBBB",
    "input": "#E69F00",
    "link": "#0072B2",
    "server": "#56B4E9",
    "straggler": "#CC79A7",
    "cores": "#D55E00",
    "sync": "#009E73",
    "unexplained": "#FFFFFF",
}
_HATCHES = {
    "link": "////",
    "straggler": "\\\\\\\\",
    "cores": "xxxx",
    "sync": "....",
    "unexplained": "----",
}
_MOST = 40
# Inches: a bar with its gap, the axis, a line of the legend.
_BAR, _AXIS, _LEGEND_LINE = 0.21, 0.45, 0.17
_LETTER = 0.075
_MINUS_COMPUTE = 1e-4


def budgeted(run: Run) -> list[ScalingRow]:
    """Return the training points whose step was divided into its parts."""
    rows = [row for row in run.rows if row.trial.mode in TRAINING and row.verdict]
    return [row for row in rows if row.verdict and row.verdict.shares]


def draw_budget(run: Run, width: float, title: str) -> Figure:
    """Draw the budgets of a run's points, `width` inches wide.

    Raises StoreError if there are none, or too many to read.
    """
    rows = budgeted(run)
    if not rows:
        got = "none: earlier versions did not measure it" if run.rows else "none"
        fix = f"Measure again, then run 'fab report.explain --run {run.folder}'"
        wanted = "a point with a budget of its step"
        raise StoreError(error_line(run.name, expected=wanted, got=got, fix=fix))
    if len(rows) > _MOST:
        problem = f"{len(rows)} points; at most {_MOST} are readable"
        raise StoreError(error_line(run.name, problem=problem, fix="Choose some with --network"))
    parts = [name for name in SHARES if any(_share(row, name) > _MINUS_COMPUTE for row in rows)]
    columns = max(1, int(width / (_LETTER * 14)))
    height = _BAR * len(rows) + _AXIS + _LEGEND_LINE * (-(-len(parts) // columns) + 1)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    _bars(figure, rows, parts)
    axes.set_title(title, loc="left", fontsize=7.5, fontweight="bold")
    axes.set_xlabel("share of the step (%)")
    axes.set_xlim(0, 100)
    axes.grid(visible=False)
    samples = [
        Patch(facecolor=COLOURS[name], hatch=_HATCHES.get(name, ""), edgecolor="black", label=name)
        for name in parts
    ]
    figure.legend(handles=samples, loc="outside upper left", ncols=columns, frameon=False)
    return figure


def _share(row: ScalingRow, name: str) -> float:
    return row.verdict.shares.get(name, 0.0) if row.verdict else 0.0


def _bars(figure: Figure, rows: Sequence[ScalingRow], parts: Sequence[str]) -> None:
    """Draw a bar per row from the top, with the seconds of its step at the right."""
    (axes,) = figure.axes
    places = range(len(rows))
    ends = [0.0] * len(rows)
    for name in parts:
        widths = [100 * _share(row, name) for row in rows]
        axes.barh(
            places,
            widths,
            left=ends,
            height=0.72,
            color=COLOURS[name],
            hatch=_HATCHES.get(name, ""),
            edgecolor="black",
            linewidth=0.4,
        )
        ends = [end + one for end, one in zip(ends, widths, strict=True)]
    axes.set_yticks(places, [matplotlib_text(one) for one in names_of(rows)])
    axes.invert_yaxis()
    seconds = axes.secondary_yaxis("right")
    steps = [row.verdict.measurements.step or 0.0 for row in rows if row.verdict]
    seconds.set_yticks(places, [f"{significant(one)} s" for one in steps])
    for side in (axes, seconds):
        side.tick_params(axis="y", length=0)


def names_of(rows: Sequence[ScalingRow]) -> list[str]:
    """Return the names of points in a figure of these points."""
    return point_names([row.trial for row in rows])
