"""Predictions in a panel: a dashed line and its intervals, apart from the points."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes

from plots.figures.model import Fan, FigureModel
from plots.figures.panels import RATE, SPEEDUP, Panel
from results.prediction.calibration import StoredPrediction

WORD = "PREDICTION"
DASHES: Any = (0, (3, 3))
_OUTER, _INNER = 0.12, 0.2
# Size of a label with its gap, as fractions of the axes.
_WIDE, _TALL = 0.25, 0.07


def _values(fan: Fan, panel: Panel) -> Callable[[StoredPrediction, float], float] | None:
    """Return how a panel shows a throughput on some devices; None if it cannot."""
    if panel is RATE:
        return lambda _, rate: rate
    if fan.base is None:
        return None
    base, devices = fan.base
    if panel is SPEEDUP:
        return lambda _, rate: rate / base
    return lambda one, rate: 100 * rate / base * devices / one.devices


def fan_values(shown: FigureModel, panel: Panel) -> list[float]:
    """Return the ends of the 95 % intervals, for the reach of the value axis."""
    return [
        value(one, end)
        for fan in shown.fans
        if (value := _values(fan, panel))
        for one in fan.predictions
        for end in (one.low_95, one.high_95)
    ]


def draw_fans(axes: Axes, shown: FigureModel, panel: Panel) -> None:
    """Draw the predictions: dashes, and bands for the 80 % and 95 % intervals."""
    for fan in shown.fans:
        if value := _values(fan, panel):
            _draw(axes, fan, value)


def _draw(axes: Axes, fan: Fan, value: Callable[[StoredPrediction, float], float]) -> None:
    counts = [one.devices for one in fan.predictions]

    def line(name: str) -> Sequence[float]:
        return [value(one, getattr(one, name)) for one in fan.predictions]

    for level, alpha in ((95, _OUTER), (80, _INNER)):
        low, high = line(f"low_{level}"), line(f"high_{level}")
        if len(counts) > 1:
            axes.fill_between(counts, low, high, color=fan.colour, alpha=alpha, linewidth=0)
        else:  # a band needs two counts
            axes.vlines(counts, low, high, color=fan.colour, alpha=2 * alpha, linewidth=4)
    middle = line("images_per_second")
    axes.plot(
        counts,
        middle,
        color=fan.colour,
        linestyle=DASHES,
        linewidth=1.2,
        marker="_",
        markersize=7,
        zorder=1.9,
    )


def label_fans(axes: Axes, shown: FigureModel, panel: Panel) -> None:
    """Label the ends of the predictions, once the axes have their limits.

    Ends that lie close together share a label.
    """
    ends = []
    for fan in shown.fans:
        if value := _values(fan, panel):
            last = fan.predictions[-1]
            ends.append((last.devices, value(last, last.images_per_second), fan.colour))
    labeled: list[tuple[float, float]] = []
    for devices, end, colour in ends:
        x, y = axes.transAxes.inverted().transform(axes.transData.transform((devices, end)))
        if any(abs(x - other) < _WIDE and abs(y - above) < _TALL for other, above in labeled):
            continue
        labeled.append((x, y))
        axes.annotate(
            WORD,
            (devices, end),
            xytext=(0, 5),
            textcoords="offset points",
            ha="right",
            fontsize=6.5,
            color=colour,
        )
