"""History of one point over many runs, with what changed besides its rate."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bench.errors import SpecError, quoted
from results.comparison.compare import differing_settings
from results.comparison.differences import run_differences
from results.run import Run
from results.scaling import ScalingRow


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """The point in one run; `changed` says what matters and differs from the run before it."""

    run: Run
    row: ScalingRow
    date: str
    changed: tuple[str, ...] = ()


def history(runs: Sequence[Run], words: str) -> list[HistoryEntry]:
    """The runs' points in whose name all the words stand, by the date they were measured.

    Raises SpecError where they stand in none, or in names of several points.
    """
    wanted = set(words.split())
    found = [
        (run, row) for run in runs for row in run.rows if wanted <= set(row.trial.name.split())
    ]
    names = list(dict.fromkeys(row.trial.name for _, row in found))
    if words in names:  # all of one name may stand in another
        names = [words]
    if len(names) != 1:
        said = f"these fit: {', '.join(names)}" if names else "none fits"
        count = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
        raise SpecError(
            f"--point {quoted(words)}: expected words of one point's name; in {count} {said}"
        )
    entries = []
    for run, row in found:
        if row.trial.name == names[0]:
            # When its first repeat began, or else the run; '' where neither is told.
            starts = (one.started for one in row.repeats if one.started)
            date = min(starts, default=str(run.environment.get("date", "")))
            entries.append(HistoryEntry(run=run, row=row, date=date))
    entries.sort(key=lambda one: one.date)
    later = [replace(new, changed=_changed(old, new)) for old, new in pairwise(entries)]
    return [entries[0], *later]


def _changed(before: HistoryEntry, now: HistoryEntry) -> tuple[str, ...]:
    found = run_differences(before.run, now.run, [(before.row, now.row)])
    told = (str(one) for one in found if one.matters)
    return (*told, *differing_settings(before.row.trial, now.row.trial))
