"""Quality of a point: whether its figures can be published, by rules in one place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bench.engines.catalog import find_engine
from bench.notes import Note, NoteKind, merged
from bench.trial import Trial
from results.rates import Rate
from results.repeat import RepeatSummary

# Fewer repeats say little about the variance between runs.
LEAST_REPEATS = 3
# CI half-width as a fraction of the throughput.
MOST_HALF_WIDTH = 0.05


class Quality(StrEnum):
    """The quality of a point's figures, best first."""

    PUBLISHABLE = "publishable"
    INDICATIVE = "indicative"
    DOUBTFUL = "doubtful"


# Kinds that rule out the best quality only. Every other kind with a headline gives the worst.
_INDICATIVE = frozenset(
    {
        *(NoteKind.FEW_REPEATS, NoteKind.WIDE_INTERVAL, NoteKind.NO_INTERVAL),
        *(NoteKind.VERSIONS_UNKNOWN, NoteKind.NOT_OURS, NoteKind.BRIEF),
        NoteKind.REPORTED,
        # The throughput counts, but the efficiency that the sweep asked for is missing.
        *(NoteKind.BASELINE_FAILED, NoteKind.BASELINE_UNSTABLE),
        NoteKind.BASELINE_OVERSUBSCRIBED,
    }
)
_DOUBTFUL = frozenset({NoteKind.OVERSUBSCRIBED, NoteKind.UNINFORMATIVE})
_ORDER = list(Quality)


@dataclass(frozen=True, kw_only=True)
class Judgment:
    """The quality of a point with its reasons; no quality if there is none to judge."""

    quality: Quality | None = None
    notes: tuple[Note, ...] = ()


class _Point(Protocol):
    """The parts of a point that its quality depends on."""

    @property
    def trial(self) -> Trial: ...
    @property
    def rate(self) -> Rate | None: ...
    @property
    def status(self) -> str: ...
    @property
    def emulated(self) -> bool: ...
    @property
    def repeats(self) -> tuple[RepeatSummary, ...]: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    @property
    def uncertain(self) -> bool: ...


def judge(point: _Point, bases: Mapping[str, _Point]) -> Judgment:
    """Return the quality of a point with these baselines, and the reasons against it.

    A point without a result, and one of the simulated engine, has no quality.
    """
    if point.rate is None or point.trial.scripted:
        return Judgment()
    found = _reasons(point, point.notes, uninformative=point.uncertain)
    reasons = [*found, *_of_baselines(point, bases)]
    return Judgment(quality=_worst(reasons), notes=tuple(_serious_first(reasons)))


def quality_of(reason: Note) -> Quality:
    """Return the best quality that a point with this note can have."""
    if reason.kind is NoteKind.BASELINE_QUALITY:
        doubtful = reason.figures.get("quality") == Quality.DOUBTFUL
        return Quality.DOUBTFUL if doubtful else Quality.INDICATIVE
    if reason.kind in _INDICATIVE:
        return Quality.INDICATIVE
    doubtful = reason.kind in _DOUBTFUL or bool(reason.kind.headline)
    return Quality.DOUBTFUL if doubtful else Quality.PUBLISHABLE


def own_doubts(reasons: Sequence[Note]) -> tuple[Note, ...]:
    """Return the reasons that make a point doubtful, except its baseline's quality."""
    return tuple(
        note
        for note in reasons
        if note.kind is not NoteKind.BASELINE_QUALITY and quality_of(note) is Quality.DOUBTFUL
    )


def _worst(reasons: Sequence[Note]) -> Quality:
    found = map(quality_of, reasons)
    return max(found, key=_ORDER.index, default=Quality.PUBLISHABLE)


def _serious_first(reasons: Sequence[Note]) -> list[Note]:
    return sorted(reasons, key=lambda note: -_ORDER.index(quality_of(note)))


def _reasons(point: _Point, notes: Sequence[Note], *, uninformative: bool) -> list[Note]:
    """Return the reasons that do not depend on the quality of baselines."""
    return [
        *([Note(NoteKind.OVERSUBSCRIBED)] if point.emulated else []),
        *(note for note in notes if quality_of(note) is not Quality.PUBLISHABLE),
        *_statistics(point, uninformative=uninformative),
        *_unknown(point.trial.engine, point.repeats),
    ]


def _statistics(point: _Point, *, uninformative: bool) -> Iterator[Note]:
    """Yield the reasons from the number of repeats and from the confidence intervals."""
    if point.rate is None:
        return
    half, repeats = point.rate.relative_half_width, point.rate.repeats
    if uninformative:
        yield Note(NoteKind.UNINFORMATIVE)
    elif half is None:
        yield Note(NoteKind.NO_INTERVAL)
    elif half > MOST_HALF_WIDTH:
        yield Note(NoteKind.WIDE_INTERVAL, {"half_width": half, "most": MOST_HALF_WIDTH})
    if repeats < LEAST_REPEATS:
        yield Note(NoteKind.FEW_REPEATS, {"repeats": repeats, "least": LEAST_REPEATS})


def _unknown(engine: str, repeats: Sequence[RepeatSummary]) -> Iterator[Note]:
    """Yield a note on versions and hardware facts that some repeat did not record."""
    reported = any(one.trial.reported for one in repeats)
    versions = () if reported else (find_engine(engine).package or "mxnet", "python")
    missing = ["versions of the program"] if reported else []
    missing += [name for name in versions if not all(one.facts.get(name) for one in repeats)]
    if not all(one.identity.code_hash for one in repeats):
        missing.append("code")
    if not all(one.machines or one.facts.get("instructions") for one in repeats):
        missing.append("hardware")
    if missing:
        yield Note(NoteKind.VERSIONS_UNKNOWN, {"what": missing})


def _of_baselines(point: _Point, bases: Mapping[str, _Point]) -> Iterator[Note]:
    """Yield a note for each baseline that is not publishable and not the point itself.

    Only the baseline's throughput matters, so its own baselines do not count.
    """
    others = {base.trial.key: base for base in bases.values()}
    for key, base in others.items():
        if key == point.trial.key or base.rate is None:
            continue
        notes = merged([one.notes for one in base.repeats])
        reasons = _reasons(base, notes, uninformative=base.rate.ratio.is_uninformative)
        if (quality := _worst(reasons)) is not Quality.PUBLISHABLE:
            layout = base.trial.layout
            figures = {"baseline": f"{layout.kvstore} x{layout.devices}", "quality": str(quality)}
            yield Note(NoteKind.BASELINE_QUALITY, figures)
