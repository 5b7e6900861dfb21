"""History of one point over many runs: throughput and other changes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bench.errors import SpecError, error_line, quoted
from bench.settings.point_names import is_called, point_words
from results.comparison.differences import run_differences
from results.comparison.pairs import setting_changes
from results.record import grouped
from results.run import Run
from results.scaling import ScalingRow


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """The point in one run; `changed`: relevant differences from the previous entry."""

    run: Run
    row: ScalingRow
    date: str
    changed: tuple[str, ...] = ()


def history(runs: Sequence[Run], words: str) -> list[HistoryEntry]:
    """Return the one point whose name contains all `words`, in each run, by date.

    Raises SpecError if no point matches, or several do.
    """
    found = [(run, row) for run in runs for row in run.rows if is_called(row.trial, words)]
    names = list(dict.fromkeys(row.trial.name for _, row in found))
    if words in names:  # a whole name may be part of another
        found = [(run, row) for run, row in found if row.trial.name == words]
        names = [words]
    alike = grouped((run.name, row.trial) for run, row in found).values()
    names = next((point_words(some) for some in alike if len(names) == 1 < len(some)), names)
    if len(names) != 1:
        matches = f"these match: {', '.join(names)}" if names else "no point matches"
        fix = "Add words" if names else "'fab report.show' lists the points of a run"
        count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        raise SpecError(
            error_line(
                f"--point {quoted(words)}",
                expected="words from one point's name",
                problem=f"in {count}, {matches}",
                fix=fix,
            )
        )
    return entries_of(found)


def entries_of(found: Iterable[tuple[Run, ScalingRow]]) -> list[HistoryEntry]:
    """Return the entries of one point in several runs, by date."""
    entries = []
    for run, row in found:
        # The start of the first repeat, else of the run; '' if neither is recorded.
        starts = (one.started for one in row.repeats if one.started)
        date = min(starts, default=str(run.environment.get("date", "")))
        entries.append(HistoryEntry(run=run, row=row, date=date))
    entries.sort(key=lambda one: one.date)
    later = [replace(new, changed=_changed(old, new)) for old, new in pairwise(entries)]
    return [entries[0], *later]


def _changed(before: HistoryEntry, now: HistoryEntry) -> tuple[str, ...]:
    found = run_differences(before.run, now.run, [(before.row, now.row)])
    relevant = (str(one) for one in found if one.matters)
    return (*relevant, *map(str, setting_changes(before.row.trial, now.row.trial)))
