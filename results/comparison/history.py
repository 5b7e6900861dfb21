"""History of one point over many runs, with what changed besides its rate."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    dated = sorted(
        ((_date(run, row), run, row) for run, row in found if row.trial.name == names[0]),
        key=lambda one: one[0],
    )
    before = [None, *dated]
    return [
        HistoryEntry(run=run, row=row, date=date, changed=_changed(last, (date, run, row)))
        for last, (date, run, row) in zip(before, dated, strict=False)
    ]


def _date(run: Run, row: ScalingRow) -> str:
    """When its first repeat began, or else the run; '' where neither is told."""
    starts = [one.started for one in row.repeats if one.started]
    return min(starts, default=str(run.environment.get("date", "")))


def _changed(
    before: tuple[str, Run, ScalingRow] | None, now: tuple[str, Run, ScalingRow]
) -> tuple[str, ...]:
    if before is None:
        return ()
    (_, one, old), (_, other, new) = before, now
    told = [str(each) for each in run_differences(one, other, [(old, new)]) if each.matters]
    return (*told, *differing_settings(old.trial, new.trial))
