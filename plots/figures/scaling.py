"""The scaling figure: throughput, speed-up, efficiency and window times."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from plots.figures import labels, panels
from plots.figures.axes import decimal_axis, log_axis, zero_based_axis
from plots.figures.fan import DASHES, WORD, draw_fans, fan_values, label_fans
from plots.figures.labels import LineEnd, balanced_lines, matplotlib_text
from plots.figures.model import FigureModel, figure_model, network_label
from plots.figures.panels import DOTTED, EFFICIENCY, GREY, RATE, RING, SPEEDUP, pale
from results.prediction.calibration import NO_PREDICTIONS, Predictions
from results.quality import Quality
from results.run import Run
from results.scaling import ScalingRow
from results.store import atomic_file

# That of SVG, which all texts are laid out for.
_DPI = 72
_TITLE_WIDTH = 100
_FOOTER_WIDTH = 190
_LEGEND_WIDTH = 178
# Legend entries above this number would leave the panels no room; the page lists all lines.
MOST_NAMED = 24
_STYLE: Any = {
    "svg.hashsalt": "mxscale",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
}


@contextmanager
def figure_style(more: Any = None) -> Iterator[None]:
    """Set the style to draw and save in; characters without a glyph become boxes."""
    with mpl.rc_context({**_STYLE, **(more or {})}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def draw(
    rows: Sequence[ScalingRow],
    title: str,
    footer: str,
    over: Run | None = None,
    predictions: Predictions = NO_PREDICTIONS,
) -> Figure:
    """Draw the four panels; `footer` is the caption, `over` a run to draw behind.

    Labels at the lines' ends name the lines. Only if they have no room, the legend does.
    """
    shown = figure_model(rows, over, predictions)
    with figure_style():
        if len(shown.lines) > MOST_NAMED:
            return _panels(shown, title, footer, named=True)[0]
        figure, ends = _panels(shown, title, footer, named=not shown.lines)
        if labels.draw_labels(figure, ends):
            figure.set_layout_engine(None)  # done for the labels; again, it would draw all twice
            return figure
        figure, ends = _panels(shown, title, footer, named=True)
        labels.draw_labels(figure, ends)
        return figure


def _panels(
    shown: FigureModel, title: str, footer: str, named: bool
) -> tuple[Figure, dict[Axes, list[LineEnd]]]:
    """Return the figure without labels, and the ends of its lines.

    named  whether the legend names the lines
    """
    figure = Figure(figsize=(11, 8), dpi=_DPI, layout="constrained")
    (rate, speedup), (efficiency, windows) = figure.subplots(2, 2)
    ends = {
        rate: panels.draw(rate, shown, RATE),
        speedup: panels.draw(speedup, shown, SPEEDUP),
        efficiency: panels.draw(efficiency, shown, EFFICIENCY),
    }
    for axes, panel in ((rate, RATE), (speedup, SPEEDUP), (efficiency, EFFICIENCY)):
        draw_fans(axes, shown, panel)
    reach = [*panels.panel_values(shown, RATE), *fan_values(shown, RATE)]
    decimal_axis(rate, [*reach, *panels.ceiling_values(shown)])
    panels.draw_ceilings(rate, shown)
    ideal = panels.draw_ideal(speedup, shown)
    speedups = [*panels.panel_values(shown, SPEEDUP), *fan_values(shown, SPEEDUP)]
    log_axis(speedup, [*speedups, *ideal])
    efficiency.axhline(100, color=GREY, linewidth=1, linestyle=DOTTED)
    efficiencies = [*panels.panel_values(shown, EFFICIENCY), *fan_values(shown, EFFICIENCY)]
    zero_based_axis(efficiency, efficiencies, least=110)
    ends[windows] = panels.draw_windows(windows, shown)
    for axes, panel in ((rate, RATE), (speedup, SPEEDUP), (efficiency, EFFICIENCY)):
        panels.draw_missing_networks(axes, shown, panel)
        panels.draw_overflow_arrows(axes, shown, panel)
        if not ends[axes]:
            axes.yaxis.set_major_locator(NullLocator())
    for axes in (rate, speedup, efficiency, windows):
        panels.draw_marks(axes, shown)
    for axes, panel in ((rate, RATE), (speedup, SPEEDUP), (efficiency, EFFICIENCY)):
        label_fans(axes, shown, panel)
    text = matplotlib_text(balanced_lines(title, _TITLE_WIDTH))
    _legend(figure, shown if named else replace(shown, lines=()), _marks(shown), text)
    folded = "\n".join(fill(line, _FOOTER_WIDTH) for line in footer.splitlines())
    figure.supxlabel(matplotlib_text(folded), fontsize=7.5, color="#444444")
    return figure, ends


def _legend(figure: Figure, shown: FigureModel, marks: Sequence[Line2D], title: str) -> None:
    """Draw title, lines and marks as one legend, so that they cannot overlap."""
    named = shown.lines if len(shown.lines) <= MOST_NAMED else shown.lines[:MOST_NAMED]
    handles = [_sample(line.colour, line.marker, line.dashes, line.label) for line in named]
    if len(named) < len(shown.lines):
        handles.append(_sample(GREY, "", "", f"and {len(shown.lines) - len(named)} more lines"))
    handles += marks
    longest = max((len(str(handle.get_label())) for handle in handles), default=0)
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=max(1, min(len(handles), _LEGEND_WIDTH // (longest + 7))),
        frameon=False,
        title=title,
        alignment="left",
        title_fontproperties={"weight": "bold", "size": 12},
    )


def _marks(shown: FigureModel) -> list[Line2D]:
    found = []
    if any(row.emulated for line in shown.lines for row in line.rows):
        found.append(_sample(GREY, "o", "", "hollow: oversubscribed", face="white"))
    if any(row.quality is Quality.INDICATIVE for line in shown.lines for row in line.rows):
        found.append(_sample(GREY, "o", "", "pale: indicative", face=pale(GREY)))
    if any(row.is_ringed for line in shown.lines for row in line.rows):
        found.append(Line2D([], [], **RING, label="ringed: has caveats, see notes"))
    alone = {network_label(one.row): one.colour for one in shown.crosses}
    for line in shown.lines:
        alone.pop(line.network, None)
    found += [_sample(one, "x", "", f"{name}: no result") for name, one in alone.items()]
    if len(alone) < len({network_label(one.row) for one in shown.crosses}):
        found.append(_sample(GREY, "x", "", "cross: no result"))
    if shown.ideals:
        ideal = f"ideal from {shown.baseline}" if shown.baseline else "ideal: n x 1 device"
        found.append(_sample(GREY, "", DOTTED, ideal))
    if shown.fans:
        text = f"{WORD}, not measured; bands: 80 % and 95 % intervals"
        found.append(_sample(GREY, "", DASHES, text))
    if shown.behind:
        found.append(_sample(GREY, ".", (0, (4, 3)), f"compared with: {shown.behind_name}"))
    return found


def _sample(colour: str, marker: str, dashes: Any, label: str, face: str | None = None) -> Line2D:
    return Line2D(
        [],
        [],
        color=colour,
        marker=marker,
        linestyle=dashes,
        label=matplotlib_text(label),
        markerfacecolor=face or colour,
    )


def save(figure: Figure, folder: Path, name: str = "scaling") -> list[Path]:
    """Write NAME.svg and NAME.png to the folder; the same figure gives the same bytes."""
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with figure_style():
        with atomic_file(paths[0]) as file:
            text = TextIOWrapper(file, "utf-8", newline="\n")
            figure.savefig(text, format="svg", metadata={"Date": None})
            text.detach()  # flushes, and leaves the file open
        figure.set_layout_engine(None)  # the layout is done; "none" would draw it twice
        with atomic_file(paths[1]) as file:
            figure.savefig(file, format="png", dpi=144, metadata={"Software": None})
    return paths
