"""Notes: caveats of a result as data; their text is composed when it is printed.

    Note(NoteKind.SWAPPED, {"mib": 12.0}, {"host": "node03"})

Any module may emit a Note. Records store `as_json`; code compares kinds and figures, never text.
A new caveat is a member of NoteKind and a sentence in notes.toml, a format string over its figures.
If it belongs above the table and marks its point, it also has a headline. Only the kinds are part
of the code hash: rewording a sentence invalidates no measurements.

Figures are plain JSON values. Numbers are merged over repeats and printed as a range; notes that
differ in text or flags stay separate. Shares are fractions of 1 ({share:.0%} prints 12 %), times
are seconds. The scope names the part of the point that a note is about: any of `host`, `hosts`,
`process`, `rank`; empty for the whole point. `merged` adds `repeats` (which, from 1) and `of` (how
many).
"""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

_MOST_SCOPES = 3


class NoteKind(StrEnum):
    """The kind of a note; records and results.csv store the values."""

    # Imported figures that mislead; a summary lists them first.
    LOG_DOUBTFUL = "log-doubtful"
    LOG_NOT_TRAINING = "log-not-training"
    LOG_EVALUATION = "log-evaluation"
    PRINTED_CONTRADICTED = "printed-contradicted"
    # Interference on the machines during the windows.
    OTHER_PROGRAMS = "other-programs"
    STOLEN = "stolen-time"
    SWAPPED = "swapped"
    THROTTLED = "throttled"
    CLOCK_FELL = "clock-fell"
    GPU_PROGRAMS = "gpu-programs"
    # The job.
    BUSY_BASELINE = "busy-baseline"
    IDLE_DEVICE = "idle-device"
    LOW_GPU_UTILIZATION = "low-gpu-utilization"
    LOW_GPU_CLOCK = "low-gpu-clock"
    REFUSED_COMMANDS = "refused-commands"
    SLOW_RANK = "slow-rank"
    INSPECTED = "inspected"
    BRIEF = "brief"
    BUDGET_SPENT = "budget-spent"
    PAGE_CACHE = "page-cache"
    PAGE_CACHE_UNKNOWN = "page-cache-unknown"
    BATCH_ABOVE_EPOCH = "batch-above-epoch"
    BATCH_ABOVE_CLASSES = "batch-above-classes"
    RATE_NOT_SCALED = "rate-not-scaled"
    RATE_WITHOUT_WARMUP = "rate-without-warmup"
    LITTLE_COMPUTING = "little-computing"
    LOSS_ROSE = "loss-rose"
    # The windows.
    WINDOWS_DROPPED = "windows-dropped"
    MANY_WINDOWS_DROPPED = "many-windows-dropped"
    NOT_STEADY = "not-steady"
    DRIFT = "drift"
    # The point compared with others.
    FAILED_REPEATS = "failed-repeats"
    BASELINE_FAILED = "baseline-failed"
    BASELINE_UNMEASURED = "baseline-unmeasured"
    BASELINE_UNSTABLE = "baseline-unstable"
    BASELINE_OVERSUBSCRIBED = "baseline-oversubscribed"
    BASELINE_ABSENT = "baseline-absent"
    BASELINE_OTHER_KIND = "baseline-other-kind"
    CONDITIONS_DIFFER = "conditions-differ"
    BASE_CONDITIONS_DIFFER = "base-conditions-differ"
    ACCURACY = "accuracy"
    ACCURACIES = "accuracies"
    TIME_TO_ACCURACY = "time-to-accuracy"
    TIME_TO_ACCURACY_ALONE = "time-to-accuracy-alone"
    ACCURACY_MISSED = "accuracy-missed"
    VARIANCE_ASSUMED = "variance-assumed"
    # What bounds the point.
    BOUND_BY_COMPUTE = "bound-by-compute"
    BOUND_BY_COMPUTE_GPU_WAITS = "bound-by-compute-gpu-waits"
    BOUND_BY_INPUT = "bound-by-input"
    BOUND_BY_LINK = "bound-by-link"
    BOUND_BY_SERVER = "bound-by-server"
    BOUND_BY_STRAGGLER = "bound-by-straggler"
    BOUND_BY_CORES = "bound-by-cores"
    BOUND_BY_INTERFERENCE = "bound-by-interference"
    BOUND_BY_SYNC = "bound-by-sync"
    BOUND_BY_MACHINE = "bound-by-machine"
    BOUND_BY_SEVERAL = "bound-by-several"
    BOUND_UNKNOWN = "bound-unknown"
    BANDWIDTH = "bandwidth"
    BANDWIDTH_ALONE = "bandwidth-alone"
    # Imported figures.
    NOT_OURS = "not-ours"
    REPORTED = "reported"
    LOG_LINES = "log-lines"
    LOG_SPOILT = "log-spoilt"
    LOG_LEFT_OUT = "log-left-out"
    LOG_TOTAL = "log-total"
    LOG_SPEEDS = "log-speeds"
    LOG_OWN_TOTAL = "log-own-total"
    LOG_WHOLE_JOB = "log-whole-job"
    LOG_TOTAL_SPEEDUP = "log-total-speedup"
    LOG_ROUNDED = "log-rounded"
    LOG_JOB_SPEED = "log-job-speed"
    LOG_COSTS = "log-costs"
    LOG_ASSUMED = "log-assumed"
    LOG_NO_TOTAL = "log-no-total"
    LOG_TIMES_AGREE = "log-times-agree"
    LOG_TIMES_UNKNOWN = "log-times-unknown"
    # Reasons why a point cannot be published, besides the kinds with a headline.
    OVERSUBSCRIBED = "oversubscribed"
    UNINFORMATIVE = "uninformative"
    FEW_REPEATS = "few-repeats"
    WIDE_INTERVAL = "wide-interval"
    NO_INTERVAL = "no-interval"
    BASELINE_QUALITY = "baseline-quality"
    VERSIONS_UNKNOWN = "versions-unknown"
    # The message of a record older than notes, or a kind of a later version.
    TEXT = "text"

    @classmethod
    def _missing_(cls, value: object) -> "NoteKind":
        return cls.TEXT

    @property
    def headline(self) -> str:
        """The summary's text for points with such a note; empty if they need no mark."""
        return _table("headlines").get(self, "")

    @property
    def reason(self) -> str:
        """The short form that groups points by the reason of their quality."""
        return _table("reasons").get(self) or self.headline or template(self)


# Kinds that report interference from other programs or the machine.
INTERFERENCE = frozenset(
    {
        *(NoteKind.OTHER_PROGRAMS, NoteKind.STOLEN, NoteKind.SWAPPED, NoteKind.THROTTLED),
        *(NoteKind.CLOCK_FELL, NoteKind.GPU_PROGRAMS),
    }
)
# Kinds that report a throughput which the times beside it contradict.
CONTRADICTED = frozenset({NoteKind.LOG_DOUBTFUL, NoteKind.PRINTED_CONTRADICTED})
# Kinds that report windows without a steady state.
UNSTEADY = frozenset({NoteKind.NOT_STEADY, NoteKind.DRIFT})


@cache
def _table(name: str) -> dict[str, str]:
    """Return the sentences or headlines by kind.

    They are data, so rewording them does not change the code hash.
    """
    path = Path(__file__).with_suffix(".toml")
    table: dict[str, str] = tomllib.loads(path.read_text(encoding="utf-8"))[name]
    return table


@dataclass(frozen=True)
class Note:
    """A caveat of a result: its kind, its figures and the part of the point in scope."""

    kind: NoteKind
    figures: Mapping[str, Any] = field(default_factory=dict)
    scope: Mapping[str, Any] = field(default_factory=dict)


def text_note(text: str) -> tuple[Note, ...]:
    """Wrap the message of a record older than notes.

    Return nothing for an empty message.
    """
    return (Note(NoteKind.TEXT, {"text": text}),) if text else ()


def as_json(note: Note) -> dict[str, Any]:
    """Return the note as plain JSON values; `of_json` is the inverse."""
    return {"kind": str(note.kind), "figures": dict(note.figures), "scope": dict(note.scope)}


def of_json(value: Any) -> Note:
    """Read a note from JSON values.

    Raises ValueError if they are not a note. Unknown kinds become TEXT.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"note: expected an object, got {value!r:.60}")  # noqa: TRY004
    kind, figures, scope = (value.get(name) for name in ("kind", "figures", "scope"))
    if not (isinstance(kind, str) and isinstance(figures, Mapping) and isinstance(scope, Mapping)):
        raise ValueError(f"note: expected kind, figures and scope, got {value!r:.60}")  # noqa: TRY004
    found = NoteKind(kind)
    if found is NoteKind.TEXT and kind != str(found) and "text" not in figures:
        figures = {"text": f"{kind} (a note kind of a later version)"}
    return Note(found, dict(figures), dict(scope))


def merged(repeats: Sequence[Iterable[Note]]) -> list[Note]:
    """Merge the notes of a point's repeats.

    Equal notes become one note with all values of their figures. Notes are equal if they have the
    same kind and scope and their figures differ only in numbers. The scope of a note that is not in
    every repeat lists its repeats (from 1).
    """
    groups: dict[tuple[Any, ...], dict[int, list[Note]]] = {}
    for number, notes in enumerate(repeats, 1):
        for note in notes:
            groups.setdefault(_identity(note), {}).setdefault(number, []).append(note)
    return [_one(group, len(repeats)) for group in groups.values()]


def _one(group: Mapping[int, Sequence[Note]], of: int) -> Note:
    notes = [note for some in group.values() for note in some]
    figures = {name: _union([note.figures[name] for note in notes]) for name in notes[0].figures}
    where = {} if len(group) == of else {"repeats": list(group), "of": of}
    return Note(notes[0].kind, figures, {**notes[0].scope, **where})


def _identity(note: Note) -> tuple[Any, ...]:
    """Return the parts that equal notes share: everything but the values of numbers."""
    figures = ((name, "" if _is_number(one) else str(one)) for name, one in note.figures.items())
    return note.kind, str(sorted(note.scope.items())), tuple(sorted(figures))


def _is_number(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _union(values: Sequence[Any]) -> Any:
    """Return the common value, or all distinct values."""
    found: list[Any] = []
    for value in values:
        found += [one for one in _listed(value) if one not in found]
    return values[0] if all(value == values[0] for value in values) else found


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


class _Shown:
    """A figure formatted for a sentence: a number, a range of numbers, or text."""

    def __init__(self, value: Any) -> None:
        self.values = _listed(value)

    def __format__(self, spec: str) -> str:
        numbers = [one for one in self.values if _is_number(one)]
        numbers = [one for one in numbers if not (isinstance(one, float) and math.isnan(one))]
        if spec == "or":
            return " or ".join(map(str, self.values))
        if spec == "list" or not spec or not numbers or len(numbers) < len(self.values):
            return ", ".join(map(str, self.values))
        ends = dict.fromkeys(_number(one, spec) for one in (min(numbers), max(numbers)))
        return " to ".join(ends) + (" %" if spec.endswith("%") else "")


def _number(value: float, spec: str) -> str:
    try:
        if spec.endswith("%"):
            kind = spec[:-1] if spec[:-1].endswith("g") else f"{spec[:-1]}f"
            return format(100 * value, kind)
        return format(int(value) if spec == "d" and value == int(value) else value, spec)
    except (ValueError, OverflowError):  # infinite and NaN values have no integer form
        return str(value)


class _Figures(dict[str, _Shown]):
    def __missing__(self, name: str) -> _Shown:
        return _Shown("?")


def template(kind: NoteKind) -> str:
    """Return the format string of a kind's sentence, for the reference."""
    return _table("sentences")[kind]


def sentence(note: Note) -> str:
    """Return the note's text without its scope and without a final full stop.

    It never fails.
    """
    figures = _Figures({name: _Shown(value) for name, value in note.figures.items()})
    return template(note.kind).format_map(figures)


def texts(notes: Iterable[Note], most: int = _MOST_SCOPES) -> list[str]:
    """Return the notes' texts with their scopes: `most` of each kind, then a count.

    'rank 2 on n2: computes 21 % slower than the other ranks (in 2 of 3 repeats)'
    """
    found: list[str] = []
    count: dict[NoteKind, int] = {}
    for note in notes:
        count[note.kind] = count.get(note.kind, 0) + 1
        if count[note.kind] <= most or note.kind == NoteKind.TEXT:
            found.append(f"{whole(note)}{_count(note.scope)}")
    count.pop(NoteKind.TEXT, None)
    more = {kind: number - most for kind, number in count.items() if number > most}
    found += [f"more notes of kind {kind}: {number}" for kind, number in more.items()]
    return found


def whole(note: Note) -> str:
    """Return the note's text after its host, rank or process: 'node1: 12 MiB moved'."""
    place = _place(note.scope)
    return f"{place}: {sentence(note)}" if place else sentence(note)


def _count(scope: Mapping[str, Any]) -> str:
    repeats = scope.get("repeats")
    return f" (in {len(repeats)} of {scope.get('of')} repeats)" if repeats else ""


def _place(scope: Mapping[str, Any]) -> str:
    """Return 'rank 2 on n2', 'worker 0', 'n1 and 1 more host on the same machine'."""
    hosts = _listed(scope.get("hosts", scope.get("host", [])))
    others = len(hosts) - 1
    plural = "s" if others > 1 else ""
    more = f" and {others} more host{plural} on the same machine" if others > 0 else ""
    where = f"{hosts[0]}{more}" if hosts else ""
    who = [f"rank {scope['rank']}"] if "rank" in scope else []
    who += [str(scope["process"])] if "process" in scope else []
    return " on ".join(filter(None, (" ".join(who), where)))
