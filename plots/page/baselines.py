"""The history of a run's points in the saved baselines, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from plots.tables.history import cells
from results.comparison.history import entries_of
from results.record import grouped
from results.run import Run
from results.scaling import ScalingRow

# A longer table is no overview; `report.history` has every point.
_MOST_POINTS = 200


@dataclass(frozen=True, kw_only=True)
class HistoryTable:
    """The points that a saved baseline has too, each with its results by date.

    rows  cells under `header`
    more  number of further points that are not shown
    """

    header: tuple[str, ...] = (
        *("point", "date", "run", "commit", "throughput", "95 % CI", "n"),
        "changed since the line above",
    )
    rows: tuple[tuple[str, ...], ...] = ()
    more: int = 0


def history_table(run: Run, baselines: Sequence[Run]) -> HistoryTable:
    """Return the history of the run's points; empty if no baseline has one of them."""
    places = [(one, _named(one)) for one in (*baselines, run)]
    found = []
    for name in _named(run):
        entries = entries_of((one, rows[name]) for one, rows in places if name in rows)
        # A copy of this very run is no earlier result.
        known = {(one.date, one.row.rate) for one in entries if one.row.rate}
        if len(known) > 1:
            found.append((name, entries))
    return HistoryTable(
        rows=tuple(
            (name, *cells(one), ", ".join(one.changed))
            for name, entries in found[:_MOST_POINTS]
            for one in entries
        ),
        more=max(0, len(found) - _MOST_POINTS),
    )


def _named(run: Run) -> dict[str, ScalingRow]:
    """Return the points by name, without names that several have."""
    names = grouped((row.trial.name, row) for row in run.rows)
    return {name: rows[0] for name, rows in names.items() if len(rows) == 1}
