"""The history of one point over many runs, as a chart."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.figures.labels import matplotlib_text
from plots.figures.scaling import figure_style
from plots.format import error_bar_note
from plots.tables.history import scripted
from plots.tables.scaling import rate_unit
from results.comparison.history import HistoryEntry

_BLUE, _RED, _GREY = "#0072B2", "#D55E00", "#666666"
# Limits of the run axis: labels, upright labels, characters per label.
_MOST_LABELS, _MOST_UPRIGHT, _LABEL = 16, 4, 24


def draw(entries: Sequence[HistoryEntry]) -> Figure:
    """Draw one point per run with its 95 % CI; dashed lines mark changed conditions.

    Runs under the same conditions are joined; a run without a result is a cross at the bottom.
    """
    word, size = rate_unit(entries[-1].row.trial)
    with figure_style():
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        axes = figure.subplots()
        axes.set_title(matplotlib_text(entries[-1].row.trial.name), loc="left", fontweight="bold")
        axes.set_ylabel(f"throughput ({word})")
        for place, one in enumerate(entries):
            _point(axes, place, one, size)
            if one.changed:
                axes.axvline(place - 0.5, color=_GREY, linewidth=1, linestyle="--")
        # Consecutive runs under the same conditions.
        edges = [0, *(n for n, one in enumerate(entries) if one.changed), len(entries)]
        for first, last in pairwise(edges):
            rates = [(n, entries[n].row.rate) for n in range(first, last)]
            known = [(n, rate.images_per_second / size) for n, rate in rates if rate]
            axes.plot([n for n, _ in known], [y for _, y in known], color=_BLUE, linewidth=0.8)
        _run_axis(axes, entries)
        axes.margins(y=0.25)
        figure.supxlabel(_footer(entries, axes.get_ylim()[0]), fontsize=7.5, color=_GREY)
        return figure


def _point(axes: Axes, place: int, entry: HistoryEntry, size: float) -> None:
    rate = entry.row.rate
    if rate is None:
        foot = axes.get_xaxis_transform()
        axes.plot([place], [0.04], marker="x", linestyle="", color=_RED, transform=foot)
        return
    value = rate.images_per_second / size
    low, high = (value if end is None else end / size for end in (rate.low, rate.high))
    ends = [[value - low], [high - value]]
    axes.errorbar([place], [value], yerr=ends, color=_BLUE, marker="o", capsize=3)


def _run_axis(axes: Axes, entries: Sequence[HistoryEntry]) -> None:
    places = range(0, len(entries), -(-len(entries) // _MOST_LABELS))
    slanted = len(entries) > _MOST_UPRIGHT
    between = " " if slanted else "\n"
    names = []
    for one in (entries[n] for n in places):
        name = one.run.name
        short = name if len(name) <= _LABEL else f"{name[: _LABEL - 1]}…"
        names.append(matplotlib_text(f"{one.date[:10]}{between}{short}"))
    axes.set_xticks(list(places), names, rotation=50 if slanted else 0, rotation_mode="anchor")
    for label in axes.get_xticklabels():
        label.set_horizontalalignment("right" if slanted else "center")
    axes.set_xlim(-0.6, len(entries) - 0.4)


def _footer(entries: Sequence[HistoryEntry], foot: float) -> str:
    parts = (
        "SIMULATED, not measured" if any(map(scripted, entries)) else "",
        "dashed: conditions changed" if any(one.changed for one in entries) else "",
        "x: no result" if any(one.row.rate is None for one in entries) else "",
        f"bars: {error_bar_note(one.row.rate for one in entries)}",
        "the axis does not start at 0" if foot > 0 else "",
    )
    return "; ".join(filter(None, parts))
