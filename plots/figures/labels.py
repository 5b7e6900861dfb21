"""Labels at the ends of lines, moved apart so that they do not overlap."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from textwrap import fill, wrap

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation

from im2rec_tools.terminal import printable

_SIZE = 7.5
_LINE_INCHES = 1.3 * _SIZE / 72
WIDTH = 24
# A label is near its point if that is right of this fraction of the axis.
_NEAR, _LONG_COLOUR = 0.6, "#aaaaaa"


@dataclass(frozen=True, kw_only=True)
class LineEnd:
    """The last point of a line, in data coordinates, and its label."""

    text: str
    colour: str
    x: float
    y: float


def matplotlib_text(text: str) -> str:
    """Return text that Matplotlib can draw and does not parse as mathematics."""
    return "\n".join(map(printable, text.split("\n"))).replace("$", r"\$")


def balanced_lines(text: str, width: int) -> str:
    """Fold a text into as few lines as `width` allows, of similar length."""
    count = len(wrap(text, width))
    return next(
        "\n".join(folded)
        for narrow in range(min(width, max(1, len(text) // max(count, 1))), width + 1)
        if len(folded := wrap(text, narrow)) <= count
    )


def draw_labels(figure: Figure, ends: dict[Axes, list[LineEnd]], width: int = WIDTH) -> bool:
    """Draw the labels right of the axes, each joined to its point by a thin line.

    Axes without room for all their labels get none. Returns whether all axes have theirs. `width`
    is the number of characters at which labels are folded.
    """
    written = {
        axes: [_write(figure, axes, end, width) for end in some] for axes, some in ends.items()
    }
    complete = True
    if engine := figure.get_layout_engine():  # heights of axes are known once they are laid out
        engine.execute(figure)
    inches = figure.dpi_scale_trans.inverted()
    for axes, notes in written.items():
        tall = axes.get_window_extent().transformed(inches).height
        heights = [_LINE_INCHES * (1 + note.get_text().count("\n")) / tall for note in notes]
        if sum(heights) > 1:
            complete = False
            for note in notes:
                note.remove()
            continue
        points = [_axes_point(axes, end) for end in ends[axes]]
        placed = spread([y for _, y in points], heights)
        for note, end, point, y in zip(notes, ends[axes], points, placed, strict=True):
            note.set_y(y)
            _connect(axes, end.colour, point, (1, y))
    return complete


def label_inches(ends: Sequence[LineEnd], width: int) -> float:
    """Return the height of these labels in inches."""
    return _LINE_INCHES * sum(2 + _folded(end, width).count("\n") for end in ends)


def _folded(end: LineEnd, width: int) -> str:
    return fill(end.text, width, break_on_hyphens=False)  # inception-v3 is one word


def spread(middles: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return middles in 0..1 as near as possible to those given, without overlap.

    The sum of the heights must be at most 1.
    """
    order = sorted(range(len(middles)), key=lambda one: middles[one])
    below = [sum(heights[other] for other in order[:place]) for place in range(len(order))]
    wanted = [middles[one] - heights[one] / 2 - low for one, low in zip(order, below, strict=True)]
    free = 1 - sum(heights)
    placed = [min(max(place, 0), free) for place in _nearest_ascending(wanted)]
    found = dict(zip(order, zip(placed, below, strict=True), strict=True))
    return [float(sum(found[one])) + heights[one] / 2 for one in range(len(middles))]


def _nearest_ascending(values: Sequence[float]) -> list[float]:
    """Return the ascending numbers nearest to these by least squares.

    Isotonic regression by pooling neighbors that descend; SciPy's takes 0.4 s to load.
    """
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and fmean(pools[-2]) >= fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [mean for pool in pools for mean in [fmean(pool)] * len(pool)]


def _axes_point(axes: Axes, end: LineEnd) -> tuple[float, float]:
    """Return the end of a line as fractions of its axes."""
    x, y = axes.transLimits.transform(axes.transScale.transform((end.x, end.y)))
    return float(x), float(y)


def _write(figure: Figure, axes: Axes, end: LineEnd, width: int) -> Text:
    """Draw the label at its point's height."""
    return axes.text(
        1,
        _axes_point(axes, end)[1],
        matplotlib_text(_folded(end, width)),
        transform=axes.transAxes + ScaledTranslation(6 / 72, 0, figure.dpi_scale_trans),
        color=tuple(0.75 * part for part in to_rgb(end.colour)),
        fontsize=_SIZE,
        va="center",
        linespacing=1.1,
    )


def _connect(
    axes: Axes, colour: str, point: tuple[float, float], label: tuple[float, float]
) -> None:
    """Draw a thin line from a point to its label, both in fractions of the axes.

    It is gray if it is long, because it would look like data.
    """
    axes.add_artist(
        Line2D(
            *zip(point, label, strict=True),
            transform=axes.transAxes,
            color=colour if point[0] > _NEAR else _LONG_COLOUR,
            linewidth=0.5,
            clip_on=False,
        )
    )
