"""Speed-ups and efficiencies with CIs: choice of the baseline for each point."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from bench.engines.engine import Comm
from bench.errors import SpecError, error_line, quoted
from bench.notes import Note, NoteKind
from bench.settings.declaration import Role
from bench.statistics.confidence import standard_error_of_difference
from bench.trial import Trial, values_of, with_role
from results.rates import Rate, Ratio
from results.record import grouped

# The baselines chosen by default, in the order of the table; each is a field of a row.
COLUMNS = ("device", "host", "worker")
_CHOICE = re.compile(r" *(\S+) +x([0-9]{1,9}) *")
# The settings that a point and its baseline must share, and those of stores with servers only.
_same = values_of(with_role(Role.IDENTITY, Role.ORIGIN))
_servers = values_of(with_role(Role.SERVERS))
# Those that may differ; of several baselines, the one that shares most of them is preferred.
_others = values_of(
    name
    for name in with_role(Role.SCALED, Role.SERVERS, Role.MEASURING)
    if name not in {"kvstore", "devices"}
)
# The status of a requested point without a record.
UNMEASURED = "unmeasured"
_NOT_TRAINED = ("test-io", "bandwidth")


# The cell that each baseline fills, for messages.
_CELLS = {
    "device": "speed-up vs 1 device",
    "host": "efficiency vs 1 host",
    "worker": "efficiency vs 1 worker",
    "baseline": "speed-up vs the chosen baseline",
}
# The baseline that is missing if no point of the run qualifies.
_SOUGHT = {
    "device": "point on 1 device",
    "host": "point on 1 full host",
    "worker": "point with 1 worker and this kvstore",
}


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A speed-up baseline: 'local x2'."""

    kvstore: str
    devices: int

    def __str__(self) -> str:
        return f"{self.kvstore} x{self.devices}"


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Speed-up and efficiency of a point vs one baseline."""

    baseline: Baseline
    speedup: Ratio
    efficiency: Ratio

    @property
    def base(self) -> str:
        """The baseline in words."""
        devices = self.baseline.devices
        return f"{self.baseline.kvstore} on {devices} device{'s' if devices > 1 else ''}"


class _Point(Protocol):
    """A candidate baseline: any requested point, with a result or without."""

    @property
    def trial(self) -> Trial: ...
    @property
    def rate(self) -> Rate | None: ...
    @property
    def status(self) -> str: ...
    @property
    def emulated(self) -> bool: ...


Kind = TypeVar("Kind", bound=_Point)


@dataclass(frozen=True, kw_only=True)
class BaselineChoice(Generic[Kind]):
    """The baselines of one point by column, and notes on empty cells."""

    points: Mapping[str, Kind]
    notes: tuple[Note, ...] = ()


def parse_baseline(text: str) -> Baseline:
    """Parse --speedup-baseline; SpecError if it is not 'KVSTORE xN'."""
    found = _CHOICE.fullmatch(text)
    if not found or not int(found[2]):
        wanted = "'KVSTORE xN', such as 'local x2'"
        raise SpecError(error_line("--speedup-baseline", expected=wanted, got=quoted(text)))
    return Baseline(kvstore=found[1], devices=int(found[2]))


def ratio(point: Rate, base: Rate, scale: float = 1.0) -> Ratio:
    """Return point / base * scale; the CI combines both logarithmic errors."""
    value = point.images_per_second / base.images_per_second * scale
    if point is base:
        return Ratio(value=value, low=value, high=value)
    if point.error is None or base.error is None:
        return Ratio(value=value, low=None, high=None)
    half = standard_error_of_difference(point.error, base.error).half_width
    return Ratio(value=value, low=value * math.exp(-half), high=value * math.exp(half))


def scaling_over(point: _Point, base: _Point) -> Scaling | None:
    """Return the point's scaling vs a baseline; None unless both have a result."""
    if point.rate is None or base.rate is None:
        return None
    devices = base.trial.layout.devices / point.trial.layout.devices
    return Scaling(
        baseline=baseline_of(base.trial),
        speedup=ratio(point.rate, base.rate),
        efficiency=ratio(point.rate, base.rate, devices),
    )


def choose_baselines(points: Sequence[Kind]) -> list[BaselineChoice[Kind]]:
    """Choose each point's baselines for `COLUMNS`.

    Candidates are all requested points: a failed baseline leaves cells empty, and no other point
    replaces it. A column has one kind of baseline in the whole run: points without servers, unless
    all candidates have servers.
    """
    families = _families(points)
    fitting = [_fitting(point, families[_same(point.trial)]) for point in points]
    comms: dict[tuple[str, int], dict[Comm, None]] = {}
    for one in fitting:
        for name, some in one.items():
            ordered = sorted((other.trial.comm for other in some), key=lambda comm: comm.spans)
            comms.setdefault(_size(name, some), {}).update(dict.fromkeys(ordered))
    chosen = [_chosen(point, one, comms) for point, one in zip(points, fitting, strict=True)]
    filled = {name for one in chosen for name in one.points}
    return [
        _with_absent(point, one, filled, alone=len(families[_same(point.trial)].points) == 1)
        for point, one in zip(points, chosen, strict=True)
    ]


def _size(column: str, fitting: Sequence[_Point]) -> tuple[str, int]:
    """Return column and device count, within which all baselines must be of one kind."""
    return column, fitting[0].trial.layout.devices


def apply_baseline(points: Sequence[Kind], wanted: Baseline) -> list[BaselineChoice[Kind]]:
    """Return each point's chosen baseline, in the column 'baseline'."""
    families = _families(points)
    return [_wanted(point, families[_same(point.trial)], wanted) for point in points]


@dataclass(frozen=True, kw_only=True)
class _PointGroup(Generic[Kind]):
    """Points that may be each other's baselines, indexed so that thousands stay fast."""

    points: Sequence[Kind]
    measured: Sequence[Kind]
    by_devices: Mapping[int, Sequence[Kind]]


def _families(points: Sequence[Kind]) -> dict[Any, _PointGroup[Kind]]:
    return {
        settings: _PointGroup(
            points=some,
            measured=[point for point in some if point.rate],
            by_devices=grouped((point.trial.layout.devices, point) for point in some),
        )
        for settings, some in grouped((_same(point.trial), point) for point in points).items()
    }


def _peers(point: Kind, family: Iterable[Kind]) -> Iterable[Kind]:
    """Return those that may be its baseline.

    The placement of servers must agree only if both points have servers.
    """
    if not _has_servers(point):
        return family
    servers = _servers(point.trial)
    return (
        other for other in family if not _has_servers(other) or _servers(other.trial) == servers
    )


def _fits(trial: Trial) -> dict[str, Callable[[Trial], bool]]:
    """Return, by applicable column, the test for trials that could be its baseline."""
    if trial.mode in _NOT_TRAINED:
        return {}
    full = trial.layout.devices_per_host
    fits: dict[str, Callable[[Trial], bool]] = {"device": lambda t: t.layout.devices == 1}
    if trial.layout.devices >= full:
        fits["host"] = lambda t: t.layout.devices == full and t.worker_hosts == 1
    if trial.comm.spans:
        one = trial.layout.kvstore, trial.layout.devices_per_worker
        fits["worker"] = lambda t: t.workers == 1 and (t.layout.kvstore, t.layout.devices) == one
    return fits


def _fitting(point: Kind, family: _PointGroup[Kind]) -> dict[str, list[Kind]]:
    """Return the possible baselines by column, without empty columns."""
    trial = point.trial
    # The device counts of all baselines that fit.
    sizes = {1, trial.layout.devices_per_host, trial.layout.devices_per_worker}
    some = (one for size in sorted(sizes) for one in family.by_devices.get(size, ()))
    peers = list(_peers(point, some))
    found = {name: [p for p in peers if fit(p.trial)] for name, fit in _fits(trial).items()}
    if all(baseline_of(p.trial) == baseline_of(trial) for p in _peers(point, family.measured)):
        # No other point has a result, so the point would be its own baseline.
        found = {
            n: [p for p in some if baseline_of(p.trial) != baseline_of(trial)]
            for n, some in found.items()
        }
    return {name: some for name, some in found.items() if some}


def _chosen(
    point: Kind,
    fitting: Mapping[str, Sequence[Kind]],
    comms: Mapping[tuple[str, int], Iterable[Comm]],
) -> BaselineChoice[Kind]:
    """Return its baselines; `comms` lists all points' ones, preferred first."""
    points: dict[str, Kind] = {}
    notes, trial = [], point.trial
    for name, some in fitting.items():
        order = [*comms[_size(name, some)]]
        # Points of one store and size can replace each other: prefer one with a result.
        best = min(
            some,
            key=lambda p: (
                _has_servers(p),
                order.index(p.trial.comm),
                p.rate is None,
                _differences(p.trial, trial),
            ),
        )
        if name != "worker" and _has_servers(best) and not all(one.servers for one in order):
            notes.append(_empty(name, baseline_of(best.trial), NoteKind.BASELINE_OTHER_KIND))
        elif best.rate is None:
            notes.append(_empty(name, baseline_of(best.trial), _lacking(best), best.status))
        elif name == "host" and best.emulated:
            kind = NoteKind.BASELINE_OVERSUBSCRIBED
            notes.append(_empty(name, baseline_of(best.trial), kind, best.status))
        else:
            points[name] = best
    return BaselineChoice(points=points, notes=tuple(notes))


def _with_absent(
    point: Kind, chosen: BaselineChoice[Kind], filled: Collection[str], *, alone: bool
) -> BaselineChoice[Kind]:
    """Add notes on columns that are `filled` for other points, but empty for this one.

    A point that is `alone` with its settings has one note for all its columns.
    """
    explained = {*chosen.points, *(note.figures["column"] for note in chosen.notes)}
    absent = [name for name in _fits(point.trial) if name in filled and name not in explained]
    if alone and absent:
        cell = "speed-up or efficiency" if "device" in absent else "efficiency"
        notes = [_absent_note(absent[0], cell, "other point")]
    else:
        fits = _fits(point.trial)
        notes = [
            _absent_note(
                name,
                _CELLS[name],
                "point of another size" if fits[name](point.trial) else _SOUGHT[name],
            )
            for name in absent
        ]
    return replace(chosen, notes=(*chosen.notes, *notes))


def _absent_note(column: str, cell: str, sought: str) -> Note:
    figures = {"column": column, "cell": cell, "baseline": sought}
    return Note(NoteKind.BASELINE_ABSENT, figures)


def _wanted(point: Kind, family: _PointGroup[Kind], wanted: Baseline) -> BaselineChoice[Kind]:
    if point.trial.mode in _NOT_TRAINED:
        return BaselineChoice(points={})
    some = family.by_devices.get(wanted.devices, ())
    fitting = [p for p in _peers(point, some) if baseline_of(p.trial) == wanted]
    if not fitting:
        note = _absent_note("baseline", _CELLS["baseline"], f"point {wanted}")
        return BaselineChoice(points={}, notes=(note,))
    best = min(
        fitting,
        key=lambda p: (
            p.rate is None,
            p.status == "unstable",
            p.emulated,
            _differences(p.trial, point.trial),
        ),
    )
    for kind, applies in {
        _lacking(best): best.rate is None,
        NoteKind.BASELINE_UNSTABLE: best.status == "unstable",
        NoteKind.BASELINE_OVERSUBSCRIBED: best.emulated,
    }.items():
        if applies:
            return BaselineChoice(points={}, notes=(_empty("baseline", wanted, kind, best.status),))
    return BaselineChoice(points={"baseline": best})


def _differences(a: Trial, b: Trial) -> int:
    return sum(one != other for one, other in zip(_others(a), _others(b), strict=True))


def _has_servers(point: _Point) -> bool:
    return point.trial.comm.servers


def _lacking(point: _Point) -> NoteKind:
    """Return the kind of note for a baseline without a result."""
    unmeasured = point.status == UNMEASURED
    return NoteKind.BASELINE_UNMEASURED if unmeasured else NoteKind.BASELINE_FAILED


def _empty(column: str, baseline: Baseline, kind: NoteKind, status: str = "") -> Note:
    figures = {"column": column, "cell": _CELLS[column], "baseline": str(baseline)}
    return Note(kind, figures | ({"status": status} if status else {}))


def baseline_of(trial: Trial) -> Baseline:
    """Return the trial's point as a baseline."""
    return Baseline(kvstore=trial.layout.kvstore, devices=trial.layout.devices)
