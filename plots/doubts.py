"""What a reader of a run has to doubt, in few words."""

from collections.abc import Iterator, Sequence

from bench.kvstores import is_distributed
from bench.notes import UNSTEADY, NoteKind, sentence
from plots.lines import TRAINING, network
from plots.numbers import ratio_of, unsure
from results.run import Run
from results.scaling import ScalingRow

_MOST_NAMED, _MOST_TEXTS = 3, 2
# Half of an interval, as a part of the rate.
_WIDE = 0.05
# An efficiency that surely is larger than this is too good.
_ABOVE = 1.01


def doubts(run: Run) -> Iterator[str]:
    """Up to two sentences: what is missing, and what makes the rest uncertain."""
    lost = list(_lost(run))
    if lost:
        yield f"Missing: {'; '.join(lost)}."
    unsure = [*_marked(run.rows), *_uncertain(run.rows), *_unlike(run.rows)]
    if unsure:
        yield f"To doubt: {'; '.join(unsure)}."
    elif not lost and not run.rehearsal:
        yield "The records themselves give no cause for doubt."


def _lost(run: Run) -> Iterator[str]:
    failed = [row for row in run.rows if row.rate is None]
    if failed:
        named = _named([f"{row.trial.name} ({_ended(row)})" for row in failed])
        which = f"{len(failed)} of {_counted(len(run.rows), 'point')}"
        yield f"a number for {which}: {named}"
    if run.missing:
        yield f"{_counted(len(run.missing), 'point')} not measured yet"
    trained = [row for row in run.rows if row.rate and row.trial.mode in TRAINING]
    yield from _without_base(trained)
    several = [
        row for row in trained if is_distributed(row.trial.kvstore) and row.trial.workers > 1
    ]
    if several and not any(row.worker for row in several):
        yield "one worker through the same store, to tell what servers cost"


def _ended(row: ScalingRow) -> str:
    """'failed', or 'failed in 1 of 3 repeats' if others have a number."""
    for note in row.notes:
        if note.kind == NoteKind.FAILED_REPEATS:
            return f"{row.status} in {note.figures['failed']} of {note.figures['of']} repeats"
    return row.status


def _without_base(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Networks on several device counts of which one device has no number, though others have."""
    names = [name for name in dict.fromkeys(map(network, rows)) if _counts(rows, name) > 1]
    without = [
        name for name in names if not any(row.device for row in rows if network(row) == name)
    ]
    if without and len(without) < len(names):
        yield f"a one-device speed-up baseline for {_named(without)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _counts(rows: Sequence[ScalingRow], name: str) -> int:
    return len({row.trial.devices for row in rows if network(row) == name})


def _marked(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """What notes say of points with a number, interference first, with the points' names."""
    good = [row for row in rows if row.rate]
    found: dict[str, list[str]] = {}
    for kind in NoteKind:
        names = [row.trial.name for row in good if kind in row.marks and kind != NoteKind.TEXT]
        if names:
            found.setdefault(kind.headline, []).extend(names)
    for headline, names in found.items():
        yield f"{headline}: {_named(list(dict.fromkeys(names)))}"
    yield from _texts(good)


def _texts(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """What records of an older version say as text, which has no kind."""
    found = [note for row in rows for note in row.notes if note.kind == NoteKind.TEXT]
    said = list(dict.fromkeys(map(sentence, found)))
    if said:
        more = [f"{len(said) - _MOST_TEXTS} more"] if len(said) > _MOST_TEXTS else []
        yield f"{NoteKind.TEXT.headline}: {', '.join([*said[:_MOST_TEXTS], *more])}"


def _uncertain(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """What makes numbers uncertain; a rehearsal's are not measured at all."""
    good = [row for row in rows if row.rate and row.trial.engine != "fake"]
    emulated = [row for row in rows if row.rate and row.emulated]
    if emulated:
        are = f"{_counted(len(emulated), 'point')} {'is' if len(emulated) == 1 else 'are'}"
        yield f"{are} emulated, on more devices than there are, and no claim about speed"
    once = [row for row in good if row.rate and row.rate.repeats == 1]
    if once:
        which = "all points" if len(once) == len(good) else f"{len(once)} of {len(good)} points"
        which = "the point" if len(good) == 1 else which
        yield f"{which} ran once, so run-to-run variance is assumed, not measured"
    twice = [row for row in good if row.rate and row.rate.repeats == 2]
    if twice:
        yield "two repeats say little about their spread"
    lost = [row for row in good if row.rate and unsure(ratio_of(row.rate))]
    based = [row.trial.name for row in good if row not in lost and _says_nothing(row)]
    names = [*(row.trial.name for row in lost), *(f"{name} against its base" for name in based)]
    if names:
        yield f"so uncertain that it says nothing: {_named(names)}"
    yield from _wide([row for row in good if row not in lost])


def _says_nothing(row: ScalingRow) -> bool:
    """Whether it has an interval wider than itself against some base."""
    against = [one.efficiency for one in (row.device, row.host, row.worker) if one]
    return any(map(unsure, against))


def _wide(rows: Sequence[ScalingRow]) -> Iterator[str]:
    widths = [half for row in rows if (half := _half(row)) is not None and half > _WIDE]
    if widths:
        which = f"{len(widths)} of {_counted(len(rows), 'interval')}"
        yield f"{which} wider than ± {100 * _WIDE:.0f} % (up to ± {100 * max(widths):.0f} %)"
    unknown = [row.trial.name for row in rows if _half(row) is None]
    if unknown:
        yield f"without an interval: {_named(unknown)}"


def _half(row: ScalingRow) -> float | None:
    if row.rate is None or row.rate.low is None or row.rate.high is None:
        return None
    return (row.rate.high - row.rate.low) / 2 / row.rate.images_per_second


def _unlike(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """What is to be read of single points, and of where servers ran."""
    good = [row for row in rows if row.rate]
    unsteady = [row.trial.name for row in good if row.status == "unstable"]
    if unsteady and not any(kind in UNSTEADY for row in good for kind in row.marks):
        yield f"{NoteKind.NOT_STEADY.headline}: {_named(unsteady)}"
    above = [row.trial.name for row in good if _above_ideal(row)]
    if above:
        yield f"better than ideal, so a base may be too slow: {_named(above)}"
    sharing = [r for r in good if r.trial.device == "cpu" and r.trial.servers]
    if any(not row.trial.server_hosts for row in sharing):
        yield "servers share their workers' cores"


def _above_ideal(row: ScalingRow) -> bool:
    found = [one.efficiency.low for one in (row.device, row.host, row.worker) if one]
    return any(low is not None and low > _ABOVE for low in found)


def _named(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*names[:_MOST_NAMED], *more])
