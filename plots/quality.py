"""Sentence on the quality of a run's points: how many can be published, and why."""

from collections import Counter
from collections.abc import Iterator, Sequence

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
    command = _rest_command(run) or next_command(run, others)
    following = f" Next: {command}" if command else ""
    yield f"{good} of {points} can be published{why}.{following}"


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
    passing = any(_passes(note) for note in notes)
    few = any(note.kind is NoteKind.FEW_REPEATS for note in notes)
    more = few or (not passing and any(note.kind in _FEW for note in notes))
    if not (more or passing):
        return ""
    if more:
        most = max(row.rate.repeats for row in rows if row.rate)
        kept += ["--repeats", str(max(LEAST_REPEATS, most + 2 * (not few)))]
    else:  # the added repeats are not in the sweep's file
        kept += [one for one in words if one.startswith("--repeats")]
    return command_line([*kept, *["--again", "doubtful"] * passing])


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
