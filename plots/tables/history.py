"""The history of one point over many runs, as a table."""

from collections.abc import Sequence

from rich.bar import Bar
from rich.text import Text

from im2rec_tools.console import cell, screen_for
from im2rec_tools.terminal import printable
from plots.figures.model import run_title
from plots.format import REHEARSAL_NOTE, significant
from plots.tables.layout import terminal_table
from plots.tables.scaling import rate_unit
from results.comparison.history import HistoryEntry

_BAR = 24


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
    if any(map(scripted, entries)):
        lines.append(f"{REHEARSAL_NOTE}.")
    return lines


def scripted(entry: HistoryEntry) -> bool:
    """Return whether the simulated engine ran it."""
    return entry.row.trial.scripted
