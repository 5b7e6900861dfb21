"""The panel of window times: every window that counts as a dot."""

from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from plots.lines import Line
from plots.panels import offsets
from plots.picture import Picture

# Dots, above which they are drawn as pixels.
_MANY = 5000


def draw(axes: Axes, shown: Picture) -> None:
    """Every steady window as a dot, their median as a bar."""
    axes.set_title("Window time: every window and the median", loc="left", fontweight="bold")
    axes.set_ylabel("seconds a window")
    shift = offsets(shown)
    bar = (shown.counts[-1] / shown.counts[0]) ** 0.008 * 1.02 if shown.counts else 1.0
    for line in shown.lines:
        _dots(axes, line, shift[line.label] ** 2, bar)
    seconds = [one for line in shown.lines for row in line.rows for one in row.window_seconds]
    if len(seconds) > _MANY:
        axes.set_rasterization_zorder(0)  # as paths they would make the SVG too large
        for dots in axes.lines:
            dots.set_zorder(-1)
    axes.set_ylim(0, 1.15 * max(seconds, default=1.0))
    if not seconds:
        axes.yaxis.set_major_locator(NullLocator())


def _dots(axes: Axes, line: Line, shift: float, bar: float) -> None:
    """A line's windows, hollow where they were emulated, and the median of each point."""
    for hollow in (False, True):
        rows = [row for row in line.rows if row.emulated is hollow and row.window_seconds]
        if not rows:
            continue
        axes.plot(
            [row.trial.devices * shift for row in rows for _ in row.window_seconds],
            [seconds for row in rows for seconds in row.window_seconds],
            marker=line.marker,
            markersize=3.5,
            linestyle="",
            color=line.colour,
            alpha=0.6,
            markerfacecolor="white" if hollow else line.colour,
        )
        places = np.array([row.trial.devices * shift for row in rows])
        middles = [median(row.window_seconds) for row in rows]
        axes.hlines(middles, places / bar, places * bar, color=line.colour, linewidth=2)
