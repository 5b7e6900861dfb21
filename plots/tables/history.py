"""The history of one point over many runs: terminal table and chart."""

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.bar import Bar
from rich.text import Text

from im2rec_tools.console import cell, screen_for
from im2rec_tools.terminal import printable
from plots.figures.labels import matplotlib_text
from plots.figures.model import run_title
from plots.figures.scaling import figure_style
from plots.format import REHEARSAL_NOTE, error_bar_note, significant
from plots.tables.layout import terminal_table
from plots.tables.scaling import rate_unit
from results.comparison.history import HistoryEntry

_BAR = 24
_BLUE, _RED, _GREY = "#0072B2", "#D55E00", "#666666"
# Limits of the run axis: labels, upright labels, characters per label.
_MOST_LABELS, _MOST_UPRIGHT, _LABEL = 16, 4, 24


def cells(entry: HistoryEntry) -> tuple[str, ...]:
    """Return date, run, commit, throughput with its unit, interval and n, as text."""
    word, size = rate_unit(entry.row.trial)
    rate = entry.row.rate
    return (
        entry.date[:16].replace("T", " "),
        run_title(entry.run),
        str(entry.run.environment.get("commit", "")),
        f"{significant(rate.images_per_second / size, 4)} {word}" if rate else entry.row.status,
        _interval(entry, size),
        str(rate.repeats) if rate else "",
    )


def _interval(entry: HistoryEntry, size: float) -> str:
    rate = entry.row.rate
    if rate is None:
        return ""
    if rate.low is None or rate.high is None:
        return "one window"
    return f"{significant(rate.low / size, 4)} - {significant(rate.high / size, 4)}"


def show(entries: Sequence[HistoryEntry]) -> None:
    """Print one row per run, with a bar from 0, and the changes between runs."""
    word, size = rate_unit(entries[-1].row.trial)
    rates = [one.row.rate.images_per_second / size for one in entries if one.row.rate]
    names = ("date", "run", "commit", word, "95 % CI", "n", "")
    table = terminal_table(names, {"date", "run", ""}, entries[-1].row.trial.name)
    for number, one in enumerate(entries, 1):
        rate = one.row.rate
        value = rate.images_per_second / size if rate else 0.0
        table.add_row(
            cell(one.date[:16].replace("T", " ")),
            cell(one.run.name + (f" [{number}]" if one.changed else "")),
            cell(one.run.environment.get("commit", "")),
            significant(value, 4) if rate else one.row.status,
            _interval(one, size),
            str(rate.repeats) if rate else "",
            Bar(max(rates), 0, value, width=_BAR) if rate else "",
            style="" if rate else "red",
        )
    table.caption = Text("\n".join(map(printable, remarks(entries))))
    screen_for(table).print(table)


def remarks(entries: Sequence[HistoryEntry]) -> list[str]:
    """Return the changes from run to run, and the causes of missing results."""
    lines = [
        f"[{number}] changed since the previous run: {', '.join(one.changed)}."
        for number, one in enumerate(entries, 1)
        if one.changed
    ]
    lines += [f"{one.run.name}: {one.row.message}." for one in entries if not one.row.rate]
    if any(map(_scripted, entries)):
        lines.append(f"{REHEARSAL_NOTE}.")
    return lines


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
        "SIMULATED, not measured" if any(map(_scripted, entries)) else "",
        "dashed: conditions changed" if any(one.changed for one in entries) else "",
        "x: no result" if any(one.row.rate is None for one in entries) else "",
        f"bars: {error_bar_note(one.row.rate for one in entries)}",
        "the axis does not start at 0" if foot > 0 else "",
    )
    return "; ".join(filter(None, parts))


def _scripted(entry: HistoryEntry) -> bool:
    return entry.row.trial.scripted
