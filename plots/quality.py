"""Sentence on the quality of a run's points: how many can be published, and why."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench.notes import Note, NoteKind
from bench.settings.secrets import command_line
from results.quality import LEAST_REPEATS, Quality, quality_of
from results.run import Run
from results.scaling import ScalingRow

_MOST_REASONS = 4
_FAB = ("fab", "bench.sweep")
# Options that the next command chooses.
_CHOSEN = ("--repeats", "--again", "--wait-idle", "--point")
_IDLE_SECONDS = "600"
# Twice the time below which a point is measured too briefly.
_ENOUGH_SECONDS = 1.0
# Reasons that another try of the same repeats does not remove.
_LASTING = frozenset({NoteKind.OVERSUBSCRIBED, NoteKind.BASELINE_QUALITY, NoteKind.UNINFORMATIVE})
_FEW = frozenset(
    {
        *(NoteKind.FEW_REPEATS, NoteKind.WIDE_INTERVAL, NoteKind.NO_INTERVAL),
        NoteKind.UNINFORMATIVE,
    }
)


def quality_sentence(run: Run) -> Iterator[str]:
    """Yield the share of publishable points with the reasons and the next command.

    Yields nothing for a run without measured or imported results.
    """
    judged = [row for row in run.rows if row.quality]
    others = [row for row in judged if row.quality is not Quality.PUBLISHABLE]
    good, count = len(judged) - len(others), len(judged)
    points = f"{count} point{'s' if count > 1 else ''}"
    if not judged:
        return
    if not others:
        yield f"{'The point' if count == 1 else f'All {points}'} can be published."
        return
    why = f"{'; for the others' * bool(good)}: {_grouped(others)}"
    yield f"{good} of {points} can be published{why}.{_next(run, others)}"


def _next(run: Run, rows: Sequence[ScalingRow]) -> str:
    """Return the next step as a sentence; '' if none is known to help."""
    if rest := _rest_command(run):
        return f" Next: {rest}"
    # Reported figures are indicative at best; their windows are those that a program prints.
    rows = [row for row in rows if not row.trial.reported]
    command, steps = next_command(run, rows), _enough_steps(rows)
    if command and steps:
        reported = any(row.trial.reported for row in run.rows)
        which = "of the points that mxscale measures" if reported else "in the sweep"
        return f" Next: set steps_per_window = {steps} {which}, then {command}"
    return f" Next: {command}" if command else ""


def _enough_steps(rows: Sequence[ScalingRow]) -> int:
    """Return the steps per window that last long enough; 0 if all points do."""
    return max(
        (
            row.trial.measuring.steps_per_window * math.ceil(_ENOUGH_SECONDS / seconds)
            for row in rows
            for note in row.quality_notes
            if note.kind is NoteKind.BRIEF and (seconds := _least(note.figures.get("seconds")))
        ),
        default=0,
    )


def _least(seconds: Any) -> float:
    """Return the least of a note's figures; 0 if it has none."""
    found = seconds if isinstance(seconds, list) else [seconds]
    return min((one for one in found if isinstance(one, int | float)), default=0.0)


def _grouped(rows: Sequence[ScalingRow]) -> str:
    """Return each short reason with the number of its points."""
    count = Counter(
        text for row in rows for text in dict.fromkeys(one.kind.reason for one in row.quality_notes)
    )
    found = count.most_common()
    texts = [f"{text} ({n} point{'s' if n > 1 else ''})" for text, n in found[:_MOST_REASONS]]
    more = len(found) - len(texts)
    return ", ".join([*texts, *([f"{more} more reason{'s' if more > 1 else ''}"] if more else [])])


def next_command(run: Run, rows: Sequence[ScalingRow]) -> str:
    """Return the command that improves these points; '' if no command is known to."""
    words = run.environment.get("command", ())
    if tuple(words[:2]) != _FAB:
        return ""
    notes = [note for row in rows for note in row.quality_notes]
    kept = [one for one in words if not one.startswith(_CHOSEN)]
    if any(note.kind.reason == NoteKind.OTHER_PROGRAMS.reason for note in notes):
        kept += ["--wait-idle", _IDLE_SECONDS]
    longer = _enough_steps(rows) > 0  # then all points are new, and none is measured again
    passing = any(_passes(note) for note in notes) and not longer
    few = any(note.kind is NoteKind.FEW_REPEATS for note in notes)
    more = few or (not passing and any(note.kind in _FEW for note in notes))
    if not (more or passing or longer):
        return ""
    if more:
        most = max(row.rate.repeats for row in rows if row.rate)
        kept += ["--repeats", str(max(LEAST_REPEATS, most + 2 * (not few)))]
    else:  # the added repeats are not in the sweep's file
        kept += [one for one in words if one.startswith("--repeats")]
    # With --again, only the doubtful points get the repeats that they lack.
    again = passing and not (few and any(map(_only_lacks, rows)))
    return command_line([*kept, *["--again", "doubtful"] * again])


def _only_lacks(row: ScalingRow) -> bool:
    """Return whether a point has few repeats and is not doubtful."""
    kinds = {note.kind for note in row.quality_notes}
    return NoteKind.FEW_REPEATS in kinds and not any(map(_passes, row.quality_notes))


def _rest_command(run: Run) -> str:
    """Return the command that runs failed repeats again; '' if all have a result.

    It comes before any other, and is the one that ends the output of a sweep with failures.
    """
    words = tuple(run.environment.get("command", ()))
    failed = any(one.samples is None for row in run.rows for one in row.repeats)
    return command_line(words) if failed and words[:2] == _FAB else ""


def _passes(note: Note) -> bool:
    """Return whether a serious reason can disappear if the same repeats run again."""
    return quality_of(note) is Quality.DOUBTFUL and note.kind not in _LASTING
