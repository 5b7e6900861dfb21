"""One panel of the figure: lines with intervals, what is behind them, and marks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from plots import axis
from plots.labels import End
from plots.lines import Line
from plots.picture import Picture
from results.rates import Ratio
from results.scaling import ScalingRow

GREY = "#777777"
DOTTED: Any = (0, (1, 2))
# How far above the points a ceiling may lie before it is told instead of drawn.
_FAR = 8


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What a panel shows of a row, with its interval."""

    title: str
    unit: str
    value: Callable[[ScalingRow], Ratio | None]
    lacking: str


def _rate(row: ScalingRow) -> Ratio | None:
    rate = row.rate
    if rate is None:
        return None
    return Ratio(value=rate.images_per_second, low=rate.low, high=rate.high)


def _speedup(row: ScalingRow) -> Ratio | None:
    return row.device.speedup if row.device else None


def _efficiency(row: ScalingRow) -> Ratio | None:
    return row.device.efficiency.times(100) if row.device else None


_NO_BASE = "nothing to compare with:\nno point on one device"
RATE = Panel(
    title="Images per second", unit="images/s (log)", value=_rate, lacking="no point has a number"
)
SPEEDUP = Panel(title="Speed-up", unit="times one device (log)", value=_speedup, lacking=_NO_BASE)
EFFICIENCY = Panel(title="Efficiency", unit="% of ideal", value=_efficiency, lacking=_NO_BASE)


def draw(axes: Axes, shown: Picture, panel: Panel) -> list[End]:
    """The lines with their intervals, those of the other run behind; returns where they end."""
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.set_ylabel(panel.unit)
    shift = offsets(shown)
    behind = [_behind(axes, line, panel) for line in shown.behind]
    ends = [_line(axes, line, panel, shift[line.label]) for line in shown.lines]
    if not any(ends):
        axes.text(0.5, 0.5, panel.lacking, transform=axes.transAxes, ha="center", color=GREY)
    return [end for end in (*ends, *behind) if end]


def values(shown: Picture, panel: Panel) -> list[float]:
    """What the panel's lines show, those of the other run too."""
    rows = [row for line in (*shown.lines, *shown.behind) for row in line.rows]
    return [found.value for found in map(panel.value, rows) if found]


def offsets(shown: Picture) -> dict[str, float]:
    """A small factor a line on the device axis, so that error bars do not hide each other."""
    middle = (len(shown.lines) - 1) / 2
    step = 1.02 if len(shown.counts) < 8 else 1.01
    return {line.label: step ** (place - middle) for place, line in enumerate(shown.lines)}


def _behind(axes: Axes, line: Line, panel: Panel) -> End | None:
    points = [(row.trial.devices, panel.value(row)) for row in line.rows]
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
    return End(text=line.end, colour=GREY, x=places[-1][0], y=places[-1][1])


def _line(axes: Axes, line: Line, panel: Panel, shift: float) -> End | None:
    points = [(row, panel.value(row)) for row in line.rows]
    found = [(row, ratio) for row, ratio in points if ratio is not None]
    places = [row.trial.devices * shift for row, _ in found]
    axes.plot(
        places,
        [ratio.value for _, ratio in found],
        color=line.colour,
        linestyle=line.dashes,
        linewidth=1.4,
    )
    for place, (row, ratio) in zip(places, found, strict=True):
        _point(axes, place, ratio, line, emulated=row.emulated)
    if not found:
        return None
    return End(text=line.end, colour=line.colour, x=places[-1], y=found[-1][1].value)


def _point(axes: Axes, place: float, ratio: Ratio, line: Line, *, emulated: bool) -> None:
    bars: Any = None
    if ratio.low is not None and ratio.high is not None:
        bars = [[ratio.value - ratio.low], [ratio.high - ratio.value]]
    axes.errorbar(
        [place],
        [ratio.value],
        yerr=bars,
        color=line.colour,
        marker=line.marker,
        markersize=6,
        markerfacecolor="white" if emulated else line.colour,
        markeredgecolor=line.colour,
        capsize=3,
        elinewidth=1,
    )


def marks(axes: Axes, shown: Picture) -> None:
    """Device ticks, a cross on the axis for each point without a number, where hosts begin."""
    axis.devices(axes, shown.counts)
    same: dict[int, int] = {}
    for one in shown.crosses:
        count = one.row.trial.devices
        same[count] = same.get(count, -1) + 1
        axes.plot(
            [count * 1.06 ** same[count]],
            [0],
            marker="x",
            markersize=7,
            markeredgewidth=1.8,
            color=one.colour,
            linestyle="",
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            zorder=5,
        )
    if shown.second_host is not None:
        axes.axvline(shown.second_host, color=GREY, linewidth=0.9, linestyle=(0, (5, 4)))
        axes.annotate(
            "second host",
            (shown.second_host, 0.99),
            xycoords=axes.get_xaxis_transform(),
            xytext=(3, 0),
            textcoords="offset points",
            va="top",
            fontsize=7,
            color=GREY,
        )


def ceilings(axes: Axes, shown: Picture) -> None:
    """One-device rates times devices and what reading alone gives, as dotted lines."""
    for ideal in shown.ideals:
        axes.plot(*_curve(ideal.points), color=ideal.colour, linestyle=DOTTED, linewidth=0.9)
    top = max(values(shown, RATE), default=0.0)
    for place, one in enumerate(shown.inputs):
        least = min(one.points.values())
        if least <= _FAR * top:
            axes.plot(*_curve(one.points), color="black", linestyle=DOTTED, linewidth=1.2)
            _ceiling_name(axes, one.label, next(iter(_curve(one.points)[0])), least)
        else:
            note = f"far above: {one.label}, {least:,.0f} images/s and more"
            axes.text(0.02, 0.97 - 0.06 * place, note, transform=axes.transAxes, va="top", size=7)


def ceiling_values(shown: Picture) -> list[float]:
    """The ceilings that are drawn."""
    top = max(values(shown, RATE), default=0.0)
    reading = [value for one in shown.inputs for value in one.points.values()]
    lines = [value for one in shown.ideals for value in one.points.values()]
    return [*lines, *(value for value in reading if value <= _FAR * top)]


def _ceiling_name(axes: Axes, text: str, x: float, y: float) -> None:
    axes.annotate(
        text, (x, y), xytext=(2, 3), textcoords="offset points", fontsize=7, color="black"
    )


def _curve(points: dict[int, float]) -> tuple[list[float], list[float]]:
    """Over all counts; where there is only one, a short level stretch around it."""
    if len(points) == 1:
        ((count, value),) = points.items()
        return [count / 1.2, count * 1.2], [value, value]
    return [float(count) for count in points], list(points.values())


def windows(axes: Axes, shown: Picture) -> None:
    """Every steady window as a dot, their median as a bar."""
    axes.set_title("Window time: every window and the median", loc="left", fontweight="bold")
    axes.set_ylabel("seconds a window")
    shift = offsets(shown)
    bar = (shown.counts[-1] / shown.counts[0]) ** 0.008 * 1.02 if shown.counts else 1.0
    for line in shown.lines:
        for row in line.rows:
            _dots(axes, row, line, row.trial.devices * shift[line.label] ** 2, bar)
    seconds = [one for line in shown.lines for row in line.rows for one in row.window_seconds]
    axes.set_ylim(0, 1.15 * max(seconds, default=1.0))


def _dots(axes: Axes, row: ScalingRow, line: Line, place: float, bar: float) -> None:
    seconds: Sequence[float] = row.window_seconds
    axes.plot(
        [place] * len(seconds),
        seconds,
        marker=line.marker,
        markersize=3.5,
        linestyle="",
        color=line.colour,
        alpha=0.6,
        markerfacecolor="white" if row.emulated else line.colour,
    )
    if seconds:
        axes.plot([place / bar, place * bar], [median(seconds)] * 2, color=line.colour, lw=2)
