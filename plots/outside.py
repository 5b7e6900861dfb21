"""What a panel cannot show: networks without a base, intervals that reach beyond the axis."""

from matplotlib.axes import Axes

from plots.labels import plain
from plots.panels import GREY, Panel, offsets
from plots.picture import Picture

_MOST_NAMED = 2


def absent(axes: Axes, shown: Picture, panel: Panel) -> None:
    """Names the networks that the panel cannot show, for want of a base."""
    there = {line.network for line in shown.lines for row in line.rows if panel.value(row)}
    names = dict.fromkeys(line.network for line in shown.lines)
    without = [name for name in names if name not in there]
    if there and without:
        more = [f"{len(without) - _MOST_NAMED} more"] if len(without) > _MOST_NAMED else []
        named = [*without[:_MOST_NAMED], *more]
        axes.set_title(
            f"without {_baseline(shown)}: {plain(', '.join(named))}",
            loc="right",
            fontsize=7,
            color=GREY,
        )


def _baseline(shown: Picture) -> str:
    return plain(f"a baseline {shown.baseline}") if shown.baseline else "a point on one device"


def beyond(axes: Axes, shown: Picture, panel: Panel) -> None:
    """An arrow at the edge where an interval reaches beyond the axis."""
    low, high = axes.get_ylim()
    shift = offsets(shown)
    for line in shown.lines:
        for row in line.rows:
            found, place = panel.value(row), row.trial.devices * shift[line.label]
            if found and found.low is not None and found.low < low:
                _arrow(axes, place, 0.0, line.colour)
            if found and found.high is not None and found.high > high:
                _arrow(axes, place, 1.0, line.colour)


def _arrow(axes: Axes, place: float, height: float, colour: str) -> None:
    """Out of the axes, at the bottom (0) or the top (1)."""
    axes.plot(
        [place],
        [height],
        marker="^" if height else "v",
        markersize=4,
        color=colour,
        linestyle="",
        transform=axes.get_xaxis_transform(),
        clip_on=False,
    )
