"""The figure: images per second, speed-up, efficiency and window times against devices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from plots.lines import Line, lines
from results.rates import Ratio
from results.scaling import ScalingRow

_TITLE_WIDTH = 92
STYLE: Any = {
    "svg.hashsalt": "mxscale",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
}


@dataclass(frozen=True, kw_only=True)
class _Panel:
    title: str
    unit: str
    value: Callable[[ScalingRow], Ratio | None]


def _rate(row: ScalingRow) -> Ratio | None:
    rate = row.rate
    if rate is None:
        return None
    return Ratio(value=rate.images_per_second, low=rate.low, high=rate.high)


def _speedup(row: ScalingRow) -> Ratio | None:
    return row.device.speedup if row.device else None


def _efficiency(row: ScalingRow) -> Ratio | None:
    return row.device.efficiency.times(100) if row.device else None


def draw(rows: Sequence[ScalingRow], title: str, footer: str) -> Figure:
    """The four panels; `footer` says on what it was measured."""
    drawn = lines(rows)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 7.6), layout="constrained")
        (rate, speedup), (efficiency, windows) = figure.subplots(2, 2)
        _panel(rate, drawn, _Panel(title="Images per second", unit="images/s (log)", value=_rate))
        _panel(
            speedup, drawn, _Panel(title="Speed-up", unit="times one device (log)", value=_speedup)
        )
        _panel(efficiency, drawn, _Panel(title="Efficiency", unit="% of ideal", value=_efficiency))
        _log_values(rate, drawn, _rate)
        _log_values(speedup, drawn, _speedup)
        _ideal(speedup, drawn)
        efficiency.axhline(100, color="#666666", linewidth=1, linestyle=(0, (1, 2)))
        _room(efficiency, drawn, _efficiency)
        _window_panel(windows, drawn)
        for axes in (rate, speedup, efficiency, windows):
            _device_axis(axes, drawn)
        _legend(figure, drawn, plain(fill(title, _TITLE_WIDTH)))
        figure.supxlabel(plain(footer), fontsize=7.5, color="#444444")
        return figure


def plain(text: str) -> str:
    """Text that Matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def _offsets(drawn: Sequence[Line]) -> dict[str, float]:
    """A small factor a line on the device axis, so that error bars do not hide each other."""
    middle = (len(drawn) - 1) / 2
    return {line.label: 1.02 ** (place - middle) for place, line in enumerate(drawn)}


def _panel(axes: Axes, drawn: Sequence[Line], panel: _Panel) -> None:
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.set_ylabel(panel.unit)
    shift = _offsets(drawn)
    for line in drawn:
        points = [(row, panel.value(row)) for row in line.rows]
        shown = [(row, ratio) for row, ratio in points if ratio is not None]
        places = [row.trial.devices * shift[line.label] for row, _ in shown]
        axes.plot(
            places,
            [ratio.value for _, ratio in shown],
            color=line.colour,
            linestyle=line.dashes,
            linewidth=1.4,
        )
        for place, (row, ratio) in zip(places, shown, strict=True):
            _point(axes, place, ratio, line, emulated=row.emulated)


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


def _counts(drawn: Sequence[Line]) -> list[int]:
    return sorted({row.trial.devices for line in drawn for row in line.rows})


def _device_axis(axes: Axes, drawn: Sequence[Line]) -> None:
    """Ticks at the device counts that were measured, and nowhere else."""
    counts = _counts(drawn)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([float(count) for count in counts]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    if counts:
        axes.set_xlim(counts[0] / 1.35, counts[-1] * 1.35)
    axes.set_xlabel("devices")


def _values(drawn: Sequence[Line], value: Callable[[ScalingRow], Ratio | None]) -> list[float]:
    found = [value(row) for line in drawn for row in line.rows]
    return [ratio.value for ratio in found if ratio is not None]


def _log_values(
    axes: Axes, drawn: Sequence[Line], value: Callable[[ScalingRow], Ratio | None]
) -> None:
    """A logarithmic axis around the values; an interval much wider than that runs off it."""
    axes.set_yscale("log", base=2)
    values = _values(drawn, value)
    if values:
        axes.set_ylim(min(values) / 1.6, max(values) * 1.6)
        if max(values) / min(values) < 8:
            axes.yaxis.set_major_locator(LogLocator(base=2, subs=(1.0, 1.5)))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 8 else f"{value:g}")
    )
    axes.yaxis.set_minor_formatter(NullFormatter())


def _room(axes: Axes, drawn: Sequence[Line], value: Callable[[ScalingRow], Ratio | None]) -> None:
    """A linear axis from 0 to a little above the values."""
    axes.set_ylim(0, max([110.0, *(1.3 * one for one in _values(drawn, value))]))


def _ideal(axes: Axes, drawn: Sequence[Line]) -> None:
    counts = _counts(drawn)
    if not counts:
        return
    ends = [counts[0], max(counts[-1], counts[0] * 2)]
    axes.plot(ends, ends, color="#666666", linewidth=1, linestyle=(0, (1, 2)))
    axes.annotate(
        "ideal",
        (ends[-1], ends[-1]),
        xytext=(-4, 4),
        textcoords="offset points",
        ha="right",
        color="#666666",
    )


def _window_panel(axes: Axes, drawn: Sequence[Line]) -> None:
    """Every steady window as a dot, their median as a bar."""
    axes.set_title("Window time: every window and the median", loc="left", fontweight="bold")
    axes.set_ylabel("seconds a window")
    shift = _offsets(drawn)
    for line in drawn:
        for row in line.rows:
            place = row.trial.devices * shift[line.label] ** 2
            axes.plot(
                [place] * len(row.window_seconds),
                row.window_seconds,
                marker=line.marker,
                markersize=3.5,
                linestyle="",
                color=line.colour,
                alpha=0.6,
                markerfacecolor="white" if row.emulated else line.colour,
            )
            if row.window_seconds:
                middle = median(row.window_seconds)
                axes.plot([place / 1.03, place * 1.03], [middle] * 2, color=line.colour, lw=2)
    axes.set_ylim(bottom=0)


def _legend(figure: Figure, drawn: Sequence[Line], title: str) -> None:
    """The lines under the title: as its legend, they cannot run into it."""
    handles = [_sample(line.colour, line.marker, line.dashes, line.label) for line in drawn]
    if any(row.emulated for line in drawn for row in line.rows):
        handles.append(_sample("#666666", "o", "", "hollow: emulated", face="white"))
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=3 if len(handles) > 4 else max(1, len(handles)),
        frameon=False,
        title=title,
        alignment="left",
        title_fontproperties={"weight": "bold", "size": 12},
    )


def _sample(colour: str, marker: str, dashes: Any, label: str, face: str | None = None) -> Line2D:
    return Line2D(
        [],
        [],
        color=colour,
        marker=marker,
        linestyle=dashes,
        label=label,
        markerfacecolor=face or colour,
    )


def save(figure: Figure, folder: Path, name: str = "scaling") -> list[Path]:
    """Writes NAME.svg and NAME.png into the folder; the same figure gives the same bytes."""
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with mpl.rc_context(STYLE):
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=144, metadata={"Software": None})
    return paths
