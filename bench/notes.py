"""Notes: what a reader must know of a number, as data; words are composed when they are printed.

    Note(NoteKind.SWAPPED, {"mib": 12.0}, {"host": "node03"})

Whoever finds something emits a Note. Records store `as_json`; code compares kinds and figures and
never text. A new caveat is a member of NoteKind and a line of _TABLE: the sentence, a format string
over its figures, and, if it belongs above the table and marks its point, a headline.

Figures are plain JSON values. Numbers are merged over repeats and printed as a range; text and
flags tell notes apart. Shares are fractions of 1 ({share:.0%} prints 12 %), times are seconds.
The scope says what part of the point a note is about: any of `host`, `hosts`, `process`, `rank`;
nothing for the whole point. `merged` adds `repeats` (which, from 1) and `of` (how many).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

_MOST_SCOPES = 3


class NoteKind(StrEnum):
    """What a note says; the values are stored and stand in results.csv."""

    # Imported figures that are not what they look like; a summary names them first.
    LOG_DOUBTFUL = "log-doubtful"
    LOG_NOT_TRAINING = "log-not-training"
    LOG_EVALUATION = "log-evaluation"
    # The machines, while windows were measured.
    OTHER_PROGRAMS = "other-programs"
    STOLEN = "stolen-time"
    SWAPPED = "swapped"
    THROTTLED = "throttled"
    CLOCK_FELL = "clock-fell"
    GPU_PROGRAMS = "gpu-programs"
    # The job.
    BUSY_BASELINE = "busy-baseline"
    IDLE_DEVICE = "idle-device"
    REFUSED_COMMANDS = "refused-commands"
    SLOW_RANK = "slow-rank"
    INSPECTED = "inspected"
    BRIEF = "brief"
    BUDGET_SPENT = "budget-spent"
    PAGE_CACHE = "page-cache"
    PAGE_CACHE_UNKNOWN = "page-cache-unknown"
    BATCH_ABOVE_EPOCH = "batch-above-epoch"
    BATCH_ABOVE_CLASSES = "batch-above-classes"
    LITTLE_COMPUTING = "little-computing"
    LOSS_ROSE = "loss-rose"
    # The windows.
    WINDOWS_DROPPED = "windows-dropped"
    MANY_WINDOWS_DROPPED = "many-windows-dropped"
    NOT_STEADY = "not-steady"
    DRIFT = "drift"
    # The point beside others.
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
    VARIANCE_ASSUMED = "variance-assumed"
    BANDWIDTH = "bandwidth"
    BANDWIDTH_ALONE = "bandwidth-alone"
    # Figures of others.
    NOT_OURS = "not-ours"
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
    # A message of a record that was made before there were notes, or a kind of a later version.
    TEXT = "text"

    @classmethod
    def _missing_(cls, value: object) -> "NoteKind":
        return cls.TEXT

    @property
    def headline(self) -> str:
        """What the summary says of points with such a note; empty if they need no mark."""
        return _TABLE[self][1]


# What others did on a machine while windows were measured.
INTERFERENCE = frozenset(
    {
        *(NoteKind.OTHER_PROGRAMS, NoteKind.STOLEN, NoteKind.SWAPPED, NoteKind.THROTTLED),
        *(NoteKind.CLOCK_FELL, NoteKind.GPU_PROGRAMS),
    }
)
# Windows that did not reach a steady state.
UNSTEADY = frozenset({NoteKind.NOT_STEADY, NoteKind.DRIFT})
_BUSY = (
    "busy machine: the baseline worker got the CPU for only {share:.0%} of its window time, so "
    "speed-ups relative to it are inflated. Rerun on an idle machine with a new --run name"
)
_CLASSES = (
    "the global batch of {batch:d} is above the {classes:d} classes, where a large --lr wants "
    "--warmup-epochs"
)
_TRAFFIC = (
    "a step sends and fetches {megabytes:.3g} MB for {seconds:.3g} s of computing: too little to "
    "scale well over a slow network, where a larger batch computes more for it"
)
_BRIEF = (
    "measured for only {seconds:.2g} s; too short to be reliable. Increase steps_per_window or "
    "windows"
)
_DROPPED = (
    "{dropped:d} of {of:d} windows after warm-up do not count; their time per image differs by "
    "{change:+.0%} from the rest"
)
_MEANWHILE = " while this was measured"
# (sentence, headline); figures stand in the sentence by their names.
_TABLE: Mapping[NoteKind, tuple[str, str]] = {
    NoteKind.OTHER_PROGRAMS: (
        "other programs used {cores:.1f} of its {of:d} cores" + _MEANWHILE,
        "other programs used the processors meanwhile",
    ),
    NoteKind.STOLEN: (
        "its hypervisor gave {share:.0%} of its cores' time to others" + _MEANWHILE,
        "hypervisors gave processor time to others",
    ),
    NoteKind.SWAPPED: (
        "it moved {mib:.0f} MiB to and from swap" + _MEANWHILE,
        "machines swapped",
    ),
    NoteKind.THROTTLED: (
        "its processors were slowed for heat" + _MEANWHILE,
        "processors were slowed for heat",
    ),
    NoteKind.CLOCK_FELL: (
        "its clock fell from {before:.1f} to {after:.1f} GHz" + _MEANWHILE,
        "processor clocks fell",
    ),
    NoteKind.GPU_PROGRAMS: (
        "other programs (processes {pids:list}) used its GPUs" + _MEANWHILE,
        "other programs used the GPUs meanwhile",
    ),
    NoteKind.BUSY_BASELINE: (_BUSY, "one-device baseline measured on a busy machine"),
    NoteKind.REFUSED_COMMANDS: (
        "servers refused commands without the job's signature: {count:d}. Another program reaches "
        "their ports and may have sent gradients too, which MXNet does not check",
        "other programs sent commands to servers",
    ),
    NoteKind.IDLE_DEVICE: ("idle while others work", "some devices were idle"),
    NoteKind.SLOW_RANK: (
        "computes {excess:.0%} slower than the other ranks",
        "some ranks computed more slowly than others",
    ),
    NoteKind.INSPECTED: (
        "not a valid throughput result: {option} was enabled",
        "not valid throughput results, for the network was inspected",
    ),
    NoteKind.BRIEF: (_BRIEF, ""),
    NoteKind.BUDGET_SPENT: (
        "a budget of {amount:g} {unit} was spent before the rate was known to {precision:g%}",
        "",
    ),
    NoteKind.PAGE_CACHE: ("{state} page cache ({cached:.0%} of {megabytes:.3g} MB)", ""),
    NoteKind.PAGE_CACHE_UNKNOWN: (
        "page cache unknown: another user owns the data",
        "",
    ),
    NoteKind.BATCH_ABOVE_EPOCH: (
        "the global batch of {batch:d} is more than the {images:d} images of an epoch",
        "",
    ),
    NoteKind.BATCH_ABOVE_CLASSES: (_CLASSES, ""),
    NoteKind.LITTLE_COMPUTING: (_TRAFFIC, ""),
    NoteKind.LOSS_ROSE: (
        "the loss rose from {first:.3g} to {last:.3g}: training diverges; try a smaller --lr",
        "training diverged",
    ),
    NoteKind.WINDOWS_DROPPED: (_DROPPED, ""),
    NoteKind.MANY_WINDOWS_DROPPED: (_DROPPED, "more than a third of the windows do not count"),
    NoteKind.NOT_STEADY: (
        "not steady: the first {dropped:d} of {of:d} windows differ from the rest and do not "
        "count; measure more windows",
        "windows not steady",
    ),
    NoteKind.DRIFT: (
        "not steady: from the first window that counts to the last their time changes by "
        "{change:+.0%}",
        "windows not steady",
    ),
    NoteKind.FAILED_REPEATS: (
        "{failed:d} of {of:d} repeats have no number",
        "some repeats failed",
    ),
    NoteKind.BASELINE_FAILED: (
        "no {cell}: {baseline} has no number ({status})",
        "no efficiency because the baseline failed",
    ),
    NoteKind.BASELINE_UNMEASURED: ("no {cell}: {baseline} is not measured yet", ""),
    NoteKind.BASELINE_UNSTABLE: (
        "no {cell}: {baseline} has no steady state",
        "no efficiency because the baseline has no steady state",
    ),
    NoteKind.BASELINE_OVERSUBSCRIBED: (
        "no {cell}: {baseline} is oversubscribed",
        "no efficiency because the baseline is oversubscribed",
    ),
    NoteKind.BASELINE_ABSENT: ("no {cell}: no point {baseline} has the same settings", ""),
    NoteKind.BASELINE_OTHER_KIND: (
        "no {cell}: only {baseline} could be its baseline, and other points stand against one "
        "without servers",
        "",
    ),
    NoteKind.CONDITIONS_DIFFER: (
        "its repeats differ in {name} ({values:or})",
        "variables or instructions differ between runs",
    ),
    NoteKind.BASE_CONDITIONS_DIFFER: (
        "it and its base {base} differ in {name} ({values:or})",
        "variables or instructions differ between runs",
    ),
    NoteKind.ACCURACY: ("validation accuracy {accuracy:.3f}", ""),
    NoteKind.ACCURACIES: (
        "validation accuracy {mean:.3f} ({accuracy:.3f} in {repeats:d} repeats)",
        "",
    ),
    NoteKind.VARIANCE_ASSUMED: (
        "n = 1: the 95 % CI assumes that processes scatter by {scatter:.3g%}",
        "",
    ),
    NoteKind.BANDWIDTH: (
        "{mb_per_second:.0f} MB/s each way a worker (95 % {low:.0f} .. {high:.0f})",
        "",
    ),
    NoteKind.BANDWIDTH_ALONE: ("{mb_per_second:.0f} MB/s each way a worker", ""),
    NoteKind.NOT_OURS: ("not measured by mxscale: {source}", ""),
    NoteKind.LOG_LINES: ("{used:d} of {lines:d} lines have a speed", ""),
    NoteKind.LOG_SPOILT: (
        "torn lines and lines without a speed above 0: {count:d} (the first: {first})",
        "",
    ),
    NoteKind.LOG_LEFT_OUT: ("{count:d} stretches that not all workers report are left out", ""),
    NoteKind.LOG_TOTAL: (
        "{steps:d} steps in the {seconds:.0f} s of the whole job are {rate:.0f} images/s",
        "",
    ),
    NoteKind.LOG_WHOLE_JOB: (
        "its throughput is that of the whole job, by its own time; the log prints the speeds of "
        "{share:.0%} of its steps, {rate:.0f} images/s",
        "",
    ),
    NoteKind.LOG_SPEEDS: (
        "the log has the speed of one {speeds}; the others are assumed to be as fast",
        "",
    ),
    NoteKind.LOG_TOTAL_SPEEDUP: (
        "by the time that both logs give for {epochs:d} epochs: {speedup:.3g} times {baseline}, "
        "{efficiency:.1%} of ideal",
        "",
    ),
    NoteKind.LOG_OWN_TOTAL: ("the log's own total is {rate:.6g} images/s", ""),
    NoteKind.LOG_ROUNDED: ("the log prints its speeds to ±{share:.1%}, as the interval allows", ""),
    NoteKind.LOG_COSTS: (
        "Speedometer's speeds contain the copy of the input to the device, the training metric and "
        "a one-device store, which mxscale's windows leave out (--costs upstream adds them)",
        "",
    ),
    NoteKind.LOG_JOB_SPEED: (
        "one of {ranks:d} ranks prints speeds: they are taken for the whole job's",
        "",
    ),
    NoteKind.LOG_EVALUATION: (
        "evaluation counts as training: the log does not say how long it took",
        "imported times that contain evaluation",
    ),
    NoteKind.LOG_ASSUMED: ("assumed (not in the log): {what:list}", ""),
    NoteKind.LOG_NO_TOTAL: (
        "no total at its end: its speeds are taken for those of the whole job",
        "",
    ),
    NoteKind.LOG_TIMES_AGREE: ("the times on its lines agree with its speeds", ""),
    NoteKind.LOG_TIMES_UNKNOWN: (
        "its speeds are taken as they stand, the clock that they come from is not checked",
        "",
    ),
    NoteKind.LOG_DOUBTFUL: (
        "doubtful: by the times of its {clock}, training took {factor:.4g} times as long as its "
        "speeds say",
        "imported speeds that the log's own times contradict",
    ),
    NoteKind.LOG_NOT_TRAINING: ("not training: its mode is {mode}", "imported, but not training"),
    NoteKind.TEXT: ("{text}", "remarks of an older version"),
}


@dataclass(frozen=True)
class Note:
    """Something to know of a number: its kind, its figures, and what part of the point it is of."""

    kind: NoteKind
    figures: Mapping[str, Any] = field(default_factory=dict)
    scope: Mapping[str, Any] = field(default_factory=dict)


def text_note(text: str) -> tuple[Note, ...]:
    """The message of a record that was made before there were notes; nothing for an empty one."""
    return (Note(NoteKind.TEXT, {"text": text}),) if text else ()


def as_json(note: Note) -> dict[str, Any]:
    """The note as plain JSON values; `of_json` is its inverse."""
    return {"kind": str(note.kind), "figures": dict(note.figures), "scope": dict(note.scope)}


def of_json(value: Any) -> Note:
    """The note that JSON holds; ValueError if it holds none. Unknown kinds become TEXT."""
    if not isinstance(value, Mapping):
        raise ValueError(f"note: expected an object, got {value!r:.60}")  # noqa: TRY004
    kind, figures, scope = (value.get(name) for name in ("kind", "figures", "scope"))
    if not (isinstance(kind, str) and isinstance(figures, Mapping) and isinstance(scope, Mapping)):
        raise ValueError(f"note: expected kind, figures and scope, got {value!r:.60}")  # noqa: TRY004
    found = NoteKind(kind)
    if found is NoteKind.TEXT and kind != str(found) and "text" not in figures:
        figures = {"text": f"{kind}, a kind of note that this version does not know"}
    return Note(found, dict(figures), dict(scope))


def merged(repeats: Sequence[Iterable[Note]]) -> list[Note]:
    """The notes of a point's repeats, equal ones as one, with all values of their figures.

    Equal are notes of one kind and scope whose figures differ in numbers alone. The scope of each
    says in which repeats (from 1) it is, if not in all.
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
    """What must be equal in notes that are merged: all but the values of numbers."""
    figures = ((name, "" if _is_number(one) else str(one)) for name, one in note.figures.items())
    return note.kind, str(sorted(note.scope.items())), tuple(sorted(figures))


def _is_number(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _union(values: Sequence[Any]) -> Any:
    """The one value that all have; else all the values there are."""
    found: list[Any] = []
    for value in values:
        found += [one for one in _listed(value) if one not in found]
    return values[0] if all(value == values[0] for value in values) else found


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


class _Shown:
    """A figure as a sentence prints it: a number, a range of numbers, or text."""

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
    except (ValueError, OverflowError):  # what is not finite is no whole number
        return str(value)


class _Figures(dict[str, _Shown]):
    def __missing__(self, name: str) -> _Shown:
        return _Shown("?")


def sentence(note: Note) -> str:
    """The note in words, without its scope and without a full stop; it never fails."""
    figures = _Figures({name: _Shown(value) for name, value in note.figures.items()})
    return _TABLE[note.kind][0].format_map(figures)


def texts(notes: Iterable[Note], most: int = _MOST_SCOPES) -> list[str]:
    """The notes in words with their scopes; of many that say the same of hosts or ranks, the first.

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
    found += [f"{number} more notes of the kind {kind}" for kind, number in more.items()]
    return found


def whole(note: Note) -> str:
    """The note in words with its host, rank or process: 'node1: it moved 12 MiB ...'."""
    place = _place(note.scope)
    return f"{place}: {sentence(note)}" if place else sentence(note)


def _count(scope: Mapping[str, Any]) -> str:
    repeats = scope.get("repeats")
    return f" (in {len(repeats)} of {scope.get('of')} repeats)" if repeats else ""


def _place(scope: Mapping[str, Any]) -> str:
    """'rank 2 on n2', 'node1 and 1 more on its machine', 'worker 0'; empty for the whole point."""
    hosts = _listed(scope.get("hosts", scope.get("host", [])))
    more = f" and {len(hosts) - 1} more on its machine" if len(hosts) > 1 else ""
    where = f"{hosts[0]}{more}" if hosts else ""
    who = [f"rank {scope['rank']}"] if "rank" in scope else []
    who += [str(scope["process"])] if "process" in scope else []
    return " on ".join(filter(None, (" ".join(who), where)))
