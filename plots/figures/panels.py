"""Panels of the figure: lines with intervals, marks, ceilings, windows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log, nan
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.ticker import NullLocator

from plots.figures.axes import device_axis
from plots.figures.labels import LineEnd, matplotlib_text
from plots.figures.model import REHEARSAL, Ceiling, FigureModel, Line
from plots.format import list_names, significant
from results.quality import Quality
from results.rates import Ratio
from results.record import grouped
from results.scaling import ScalingRow

GREY = "#777777"
DOTTED: Any = (0, (1, 2))
# The ring around a point with caveats.
RING: Any = {
    "marker": "o",
    "markersize": 12,
    "markerfacecolor": "none",
    "markeredgecolor": "#B00020",
    "markeredgewidth": 1.3,
    "linestyle": "",
}
# Share of its color in a pale point.
_PALE = 0.35
# A ceiling above this many times the highest point becomes a text instead of a line.
_FAR = 8
_NO_BASE = "not available: needs a result {baseline}\nand another point to compare"
# More dots than this are drawn as pixels.
_MANY = 5000
_MOST_MISSING = 2
# More lines than this are drawn together with those that look the same.
_MOST_ALONE = 24
# More CIs or medians than this are drawn as one path, which is faster than a path each.
_MOST_BARS = 300
# With so few device counts all lines meet in a few places, so they stand further apart there.
_FEW_COUNTS = 3


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel's value of a row, with its CI; title and unit may contain {baseline}."""

    title: str
    unit: str
    value: Callable[[ScalingRow], Ratio | None]
    lacking: str


def _rate(row: ScalingRow) -> Ratio | None:
    return row.rate.ratio if row.rate else None


def _speedup(row: ScalingRow) -> Ratio | None:
    return row.shown_scaling.speedup if row.shown_scaling else None


def _efficiency(row: ScalingRow) -> Ratio | None:
    return row.shown_scaling.efficiency.times(100) if row.shown_scaling else None


RATE = Panel(
    title="Throughput", unit="images/s (log)", value=_rate, lacking="no point has a result"
)
SPEEDUP = Panel(
    title="Speed-up", unit="speed-up vs {baseline} (log)", value=_speedup, lacking=_NO_BASE
)
EFFICIENCY = Panel(title="Efficiency", unit="% of ideal", value=_efficiency, lacking=_NO_BASE)


def draw(axes: Axes, shown: FigureModel, panel: Panel) -> list[LineEnd]:
    """Draw the lines with their CIs, the other run behind; return the line ends."""
    axes.set_title(panel.title, loc="left", fontweight="bold")
    baseline = str(shown.baseline or "1 device")
    axes.set_ylabel(matplotlib_text(panel.unit.format(baseline=baseline)))
    shift = offsets(shown)
    behind = [_behind(axes, line, panel, shown.behind_name) for line in shown.behind]
    values = {
        line: [
            _Point(shift[line].place(row.trial.layout.devices), row, found)
            for row in line.rows
            if (found := panel.value(row)) is not None
        ]
        for line in shown.lines
    }
    for lines in _drawn_together(shown.lines):
        _lines(axes, lines, values)
    if _are_many(values):
        colours = grouped((line.colour, one) for line in shown.lines for one in values[line])
        for colour, some in colours.items():
            _bars(axes, some, colour)
    ends = [_end(line, values[line]) for line in shown.lines]
    if not any(ends):
        where = f"of {shown.baseline}" if shown.baseline else "on 1 device"
        lacking = matplotlib_text(panel.lacking.format(baseline=where))
        axes.text(0.5, 0.5, lacking, transform=axes.transAxes, ha="center", color=GREY)
        axes.texts[-1].set_backgroundcolor("white")  # lines may pass there
    return [end for end in (*ends, *behind) if end]


def panel_values(shown: FigureModel, panel: Panel) -> list[float]:
    """Return the values of the panel's lines, including those of the other run."""
    rows = [row for line in (*shown.lines, *shown.behind) for row in line.rows]
    return [found.value for found in map(panel.value, rows) if found]


@dataclass(frozen=True, kw_only=True)
class Offset:
    """A line's small shift along the device axis, which keeps error bars apart."""

    factor: float = 1.0
    devices: float = 0.0

    def place(self, devices: int) -> float:
        """Return the place of a point on the device axis."""
        return devices * self.factor + self.devices


def offsets(shown: FigureModel, spread: float = 1.0) -> dict[Line, Offset]:
    """Return the offset of each line; `spread` widens all."""
    count, counts = len(shown.lines), shown.counts
    scaled = [float(one) if shown.linear else log(one) for one in counts]
    gap = min((b - a for a, b in pairwise(scaled)), default=log(2))
    if len(counts) <= _FEW_COUNTS:
        step = min(0.06, 0.3 / max(1, count - 1)) * gap
    else:
        step = min(0.03 if len(counts) < 8 else 0.015, 0.2 / max(1, count)) * gap
    shifts = [spread * step * (place - (count - 1) / 2) for place in range(count)]
    return {
        line: Offset(devices=shift) if shown.linear else Offset(factor=exp(shift))
        for line, shift in zip(shown.lines, shifts, strict=True)
    }


def _behind(axes: Axes, line: Line, panel: Panel, name: str) -> LineEnd | None:
    points = [(row.trial.layout.devices, panel.value(row)) for row in line.rows]
    places = [(devices, ratio.value) for devices, ratio in points if ratio]
    if not places:
        return None
    axes.plot(
        *zip(*places, strict=True),
        color=GREY,
        linestyle=(0, (4, 3)),
        linewidth=0.8,
        marker="x" if len(places) < 2 else ".",
        markersize=4,
        zorder=1.5,
    )
    text = f"{line.end} ({name.removesuffix(REHEARSAL)})"
    return LineEnd(text=text, colour=GREY, x=places[-1][0], y=places[-1][1])


class _Point(NamedTuple):
    """A point of a panel: its place on the device axis, and its value."""

    place: float
    row: ScalingRow
    value: Ratio


def _drawn_together(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines one by one, or those of many lines that look the same together.

    Matplotlib draws a few long paths much faster than hundreds of short ones.
    """
    if len(lines) <= _MOST_ALONE:
        return [[line] for line in lines]
    return list(grouped((_look(line), line) for line in lines).values())


def _ideals_together(ideals: Sequence[Ceiling]) -> list[list[Ceiling]]:
    """Return the ideal lines one by one, or those of many by color."""
    if len(ideals) <= _MOST_ALONE:
        return [[one] for one in ideals]
    return list(grouped((one.colour, one) for one in ideals).values())


def _joined_path(
    parts: Sequence[Sequence[tuple[float, float]]],
) -> tuple[list[float], list[float]]:
    """Return x and y values of one path; a gap lifts the pen between two parts."""
    path = [place for some in parts for place in (*some, (nan, nan))][:-1]
    return [x for x, _ in path], [y for _, y in path]


def _look(line: Line) -> tuple[str, str, str]:
    return line.colour, line.marker, str(line.dashes)


def _lines(axes: Axes, lines: Sequence[Line], values: Mapping[Line, Sequence[_Point]]) -> None:
    """Draw lines that look the same, with their CIs."""
    first = lines[0]
    found = [values[line] for line in lines]
    axes.plot(
        *_joined_path([[(one.place, one.value.value) for one in some] for some in found]),
        color=first.colour,
        linestyle=first.dashes,
        linewidth=1.4,
    )
    points = [one for some in found for one in some]
    faces = grouped((point_face(one.row, first.colour), (one.place, one.value)) for one in points)
    for face, some in faces.items():
        (_markers if _are_many(values) else _points)(axes, some, first, face)
    _rings(axes, [(one.place, one.value) for one in points if one.row.is_ringed])


def _end(line: Line, points: Sequence[_Point]) -> LineEnd | None:
    if not points:
        return None
    return LineEnd(text=line.end, colour=line.colour, x=points[-1].place, y=points[-1].value.value)


def point_face(row: ScalingRow, colour: str) -> str:
    """Return the fill of a point: white if oversubscribed, pale if only indicative."""
    if row.emulated:
        return "white"
    return pale(colour) if row.quality is Quality.INDICATIVE else colour


def pale(colour: str) -> str:
    """Return the color mixed with white, which also shows in gray print."""
    red, green, blue = (1 - _PALE * (1 - part) for part in to_rgb(colour))
    return to_hex((red, green, blue))


def _rings(axes: Axes, points: Sequence[tuple[float, Ratio]]) -> None:
    """Draw a ring around points with caveats."""
    if points:
        places = [place for place, _ in points], [ratio.value for _, ratio in points]
        axes.plot(*places, **RING, zorder=4, clip_on=False)


def _points(axes: Axes, points: Sequence[tuple[float, Ratio]], line: Line, face: str) -> None:
    """Draw markers with their CIs, if known."""
    ratios = [ratio for _, ratio in points]
    below = [nan if ratio.low is None else ratio.value - ratio.low for ratio in ratios]
    above = [nan if ratio.high is None else ratio.high - ratio.value for ratio in ratios]
    drawn = axes.errorbar(
        [place for place, _ in points],
        [ratio.value for ratio in ratios],
        yerr=[below, above],
        color=line.colour,
        linestyle="",
        marker=line.marker,
        markersize=6,
        markerfacecolor=face,
        markeredgecolor=line.colour,
        capsize=2,
        elinewidth=0.8,
        capthick=0.8,
    )
    for bar in (*drawn.lines[1], *drawn.lines[2]):  # behind all lines, so that it hides none
        bar.set_zorder(1.8)


def _are_many(values: Mapping[Line, Sequence[_Point]]) -> bool:
    """Return whether a panel's CIs are drawn as one path per color."""
    return sum(map(len, values.values())) > _MOST_BARS


def _markers(axes: Axes, points: Sequence[tuple[float, Ratio]], line: Line, face: str) -> None:
    """Draw markers alone."""
    axes.plot(
        [place for place, _ in points],
        [ratio.value for _, ratio in points],
        linestyle="",
        marker=line.marker,
        markersize=6,
        markerfacecolor=face,
        markeredgecolor=line.colour,
        zorder=2.1,  # as `errorbar` has them
    )


def _bars(axes: Axes, points: Sequence[_Point], colour: str) -> None:
    """Draw the CIs of many points as `_points` does, but as one path."""
    found = [(one.place, one.value.low, one.value.high) for one in points]
    known = [(x, low, high) for x, low, high in found if low is not None and high is not None]
    style: Any = {"color": colour, "zorder": 1.8}
    bars = _joined_path([[(x, low), (x, high)] for x, low, high in known])
    axes.plot(*bars, linewidth=0.8, solid_capstyle="butt", snap=True, **style)
    caps = [(x, end) for x, *ends in known for end in ends]
    axes.plot(
        [x for x, _ in caps],
        [end for _, end in caps],
        linestyle="",
        marker="_",
        markersize=4,
        markeredgewidth=0.8,
        **style,
    )


def draw_marks(axes: Axes, shown: FigureModel, height: float = 0.99) -> None:
    """Draw device ticks, crosses for missing results, and the second host's line.

    height  place of the line's label, as a fraction of the axis
    """
    device_axis(axes, shown.counts)
    same: dict[int, int] = {}
    for one in shown.crosses:
        count = one.row.trial.layout.devices
        same[count] = same.get(count, -1) + 1
        # On the axis, or above the other crosses of this count.
        style = {"marker": "x", "markersize": 7, "markeredgewidth": 1.8, "zorder": 5}
        _mark(axes, count, 0.03 * same[count], color=one.colour, **style)
    if shown.second_host is not None:
        axes.axvline(shown.second_host, color=GREY, linewidth=0.9, linestyle=(0, (5, 4)))
        axes.annotate(
            "second host",
            (shown.second_host, height),
            xycoords=axes.get_xaxis_transform(),
            xytext=(3, 0),
            textcoords="offset points",
            va="top" if height > 0.5 else "bottom",
            fontsize=7,
            color=GREY,
        )


def _mark(axes: Axes, place: float, height: float, **style: Any) -> None:
    """Draw a mark on the device axis; height 0 is the panel's bottom, 1 its top."""
    axes.plot(
        [place],
        [height],
        linestyle="",
        transform=axes.get_xaxis_transform(),
        clip_on=False,
        **style,
    )


def draw_ideal(axes: Axes, shown: FigureModel) -> list[float]:
    """Draw the ideal line, speed-up equal to the number of devices; return its values."""
    counts = shown.counts
    if len(counts) < 2 or not panel_values(shown, SPEEDUP):
        return []
    ends = [counts[0], counts[-1]]
    of = shown.baseline.devices if shown.baseline else 1
    ideal = [count / of for count in ends]
    axes.plot(ends, ideal, color=GREY, linewidth=1, linestyle=DOTTED)
    axes.annotate(
        "ideal",
        (ends[-1], ideal[-1]),
        xytext=(-4, 4),
        textcoords="offset points",
        ha="right",
        color=GREY,
    )
    return ideal


def draw_ceilings(axes: Axes, shown: FigureModel) -> None:
    """Draw ideal lines and input-pipeline ceilings as dotted lines."""
    for ideals in _ideals_together(shown.ideals):
        curves = [_curve(one.points) for one in ideals]
        places = _joined_path([list(zip(*one, strict=True)) for one in curves])
        axes.plot(*places, color=ideals[0].colour, linestyle=DOTTED, linewidth=0.9)
    top = max(panel_values(shown, RATE), default=0.0)
    height = 0.97 if shown.second_host is None else 0.91  # below the second host's label
    for place, one in enumerate(shown.inputs):
        least = min(one.points.values())
        if least <= _FAR * top:
            axes.plot(*_curve(one.points), color="black", linestyle=DOTTED, linewidth=1.2)
            x, y = (ends[-1] for ends in _curve(one.points))
            above: Any = {"xytext": (0, 3), "textcoords": "offset points"}
            axes.annotate(one.label, (x, y), fontsize=7, ha="center", **above)
        else:
            bound = "at least " if len(set(one.points.values())) > 1 else ""
            note = f"{one.label}: {bound}{significant(least)} images/s (above this chart)"
            axes.text(0.02, height - 0.06 * place, note, transform=axes.transAxes, va="top", size=7)


def ceiling_values(shown: FigureModel) -> list[float]:
    """Return the values of the ceilings that are drawn."""
    top = max(panel_values(shown, RATE), default=0.0)
    reading = [value for one in shown.inputs for value in one.points.values()]
    lines = [value for one in shown.ideals for value in one.points.values()]
    return [*lines, *(value for value in reading if value <= _FAR * top)]


def _curve(points: dict[int, float]) -> tuple[list[float], list[float]]:
    """Return x and y values; a single count becomes a short level line around it."""
    if len(points) == 1:
        ((count, value),) = points.items()
        return [count / 1.2, count * 1.2], [value, value]
    return [float(count) for count in points], list(points.values())


def draw_windows(axes: Axes, shown: FigureModel) -> list[LineEnd]:
    """Draw each steady window as a dot, the median as a bar; return the ends."""
    axes.set_title("Window time: every window and the median", loc="left", fontweight="bold")
    axes.set_ylabel("seconds per window")
    shift = offsets(shown, spread=2)
    bar = (shown.counts[-1] / shown.counts[0]) ** 0.008 * 1.02 if shown.counts else 1.0
    for lines in _drawn_together(shown.lines):
        _dots(axes, [(row, shift[line]) for line in lines for row in line.rows], lines[0])
    ends = [_last_median(line, shift[line]) for line in shown.lines]
    seconds = [one for line in shown.lines for row in line.rows for one in row.window_seconds]
    if len(seconds) > _MANY:
        axes.set_rasterization_zorder(0)  # paths would make the SVG too large
        for dots in axes.lines:
            dots.set_zorder(-1)
    _medians(axes, shown.lines, shift, bar)
    axes.set_ylim(0, 1.15 * max(seconds, default=1.0))
    if not seconds:
        axes.yaxis.set_major_locator(NullLocator())
    return [end for end in ends if end]


def _medians(axes: Axes, lines: Sequence[Line], shift: Mapping[Line, Offset], bar: float) -> None:
    """Draw the median of each point's windows; `bar` is half its width, as a factor."""
    found = grouped(
        (
            line.colour,
            (shift[line].place(row.trial.layout.devices), median(row.window_seconds)),
        )
        for line in lines
        for row in line.rows
        if row.window_seconds
    )
    for colour, middles in found.items():
        style: Any = {"color": colour, "linewidth": 2}
        if len(middles) > _MOST_BARS:
            path = _joined_path([[(x / bar, y), (x * bar, y)] for x, y in middles])
            axes.plot(*path, **style, solid_capstyle="butt", snap=True)
        else:
            places = np.array([x for x, _ in middles])
            axes.hlines([y for _, y in middles], places / bar, places * bar, **style)


def _dots(axes: Axes, placed: Sequence[tuple[ScalingRow, Offset]], line: Line) -> None:
    """Draw the windows of points as those of `line`, hollow if oversubscribed."""
    for hollow in (False, True):
        rows = [
            (row, shift.place(row.trial.layout.devices))
            for row, shift in placed
            if row.emulated is hollow and row.window_seconds
        ]
        if not rows:
            continue
        axes.plot(
            [place for row, place in rows for _ in row.window_seconds],
            [seconds for row, _ in rows for seconds in row.window_seconds],
            marker=line.marker,
            markersize=3.5,
            linestyle="",
            color=line.colour,
            alpha=0.6,
            markerfacecolor="white" if hollow else line.colour,
        )


def _last_median(line: Line, shift: Offset) -> LineEnd | None:
    last = next((row for row in reversed(line.rows) if row.window_seconds), None)
    if last is None:
        return None
    place = shift.place(last.trial.layout.devices)
    return LineEnd(text=line.end, colour=line.colour, x=place, y=median(last.window_seconds))


def draw_missing_networks(axes: Axes, shown: FigureModel, panel: Panel) -> None:
    """Name the networks that the panel cannot show because they lack a baseline."""
    there = {line.network for line in shown.lines for row in line.rows if panel.value(row)}
    networks = dict.fromkeys(line.network for line in shown.lines)
    without = [name for name in networks if name not in there]
    if there and without:
        names = list_names(without, _MOST_MISSING, ", ")
        chosen = matplotlib_text(f"baseline {shown.baseline}")
        base = chosen if shown.baseline else "1-device result"
        axes.set_title(
            f"no {base}: {matplotlib_text(names)}",
            loc="right",
            fontsize=7,
            color=GREY,
        )


def draw_overflow_arrows(axes: Axes, shown: FigureModel, panel: Panel) -> None:
    """Draw an arrow at the edge if a CI reaches beyond the axis."""
    low, high = axes.get_ylim()
    shift = offsets(shown)
    for line in shown.lines:
        for row in line.rows:
            found, place = panel.value(row), shift[line].place(row.trial.layout.devices)
            if found and found.low is not None and found.low < low:
                _mark(axes, place, 0.0, marker="v", markersize=4, color=line.colour)
            if found and found.high is not None and found.high > high:
                _mark(axes, place, 1.0, marker="^", markersize=4, color=line.colour)
