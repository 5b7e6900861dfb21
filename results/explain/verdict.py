"""Verdict on a point: what its step is lost to, by one rule over its measurements.

Pure. docs/explanation/verdicts.md gives the reasons and the error rates of the rule.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bench.notes import Note, NoteKind
from results.explain.measurements import StepMeasurements

# A cause is named if it takes this fraction of the step and of what is lost, and this many times
# the next cause.
LEAST_SHARE, _LEAST_OF_LOST, _LEAST_LEAD = 0.08, 0.5, 1.5
# Other programs count if they take more of the cores than this.
_OTHERS_ABOVE = 0.1
# The input pipeline alone must take this fraction of the step to explain a wait for images.
_READING_SHARE = 0.75
# A ceiling explains the exchange if it takes this fraction of it, and exceeds the other one by
# this factor.
_EXPLAINS, _ABOVE_OTHER = 0.5, 1.15
_ROUNDING = 1e-9
# Neither explains it alone, but both do together, if their sum takes this fraction.
_BOTH_EXPLAIN = 0.75


class Cause(StrEnum):
    """What takes most of a step's lost time; stored in results.csv.

    compute       computing; nothing worth naming is lost
    input         workers wait for images
    link          the network between hosts
    server        parameter servers, or their cores
    straggler     all workers wait for the slowest
    cores         workers slow each other down on one host
    interference  other programs or virtual machines
    sync          meeting and messages of small arrays, not bytes
    machine       swapping, heat or a lower clock
    several       no single cause stands out
    not measured  the point lacks measurements that the rule needs
    """

    COMPUTE = "compute"
    INPUT = "input"
    LINK = "link"
    SERVER = "server"
    STRAGGLER = "straggler"
    CORES = "cores"
    INTERFERENCE = "interference"
    SYNC = "sync"
    MACHINE = "machine"
    SEVERAL = "several"
    NOT_MEASURED = "not measured"


class Gap(StrEnum):
    """A quantity that the verdict would use, in words."""

    STEP = "a throughput"
    INPUT = "waiting for input"
    OWN = "computing of each worker without waiting (probes)"
    ALONE = "the step of one device alone"
    MACHINES = "other programs"
    READING = "the input pipeline alone (bench.io)"
    LINK = "raw TCP (bench.bandwidth)"
    SERVERS = "CPU time of servers"
    PRECISION = "a 95 % CI narrower than the loss"


class Ceiling(StrEnum):
    """A measured limit that the verdict used, in words."""

    READING = "input pipeline alone"
    LINK = "bytes at raw TCP"
    STORE = "push and pull alone"
    SERVERS = "busiest server, running or waiting for a core"


_UNEXPLAINED = "unexplained"
# The parts of a step that results.csv has, in this order.
SHARES = ("compute", "input", "link", "server", "straggler", "cores", "sync", _UNEXPLAINED)
# Causes without a share of their own.
_COUNTED_AS = {Cause.INTERFERENCE: Cause.CORES, Cause.MACHINE: _UNEXPLAINED}
NOTE_KINDS = {
    Cause.COMPUTE: NoteKind.BOUND_BY_COMPUTE,
    Cause.INPUT: NoteKind.BOUND_BY_INPUT,
    Cause.LINK: NoteKind.BOUND_BY_LINK,
    Cause.SERVER: NoteKind.BOUND_BY_SERVER,
    Cause.STRAGGLER: NoteKind.BOUND_BY_STRAGGLER,
    Cause.CORES: NoteKind.BOUND_BY_CORES,
    Cause.INTERFERENCE: NoteKind.BOUND_BY_INTERFERENCE,
    Cause.SYNC: NoteKind.BOUND_BY_SYNC,
    Cause.MACHINE: NoteKind.BOUND_BY_MACHINE,
    Cause.SEVERAL: NoteKind.BOUND_BY_SEVERAL,
    Cause.NOT_MEASURED: NoteKind.BOUND_UNKNOWN,
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What bounds a point.

    seconds       of a step by cause, `compute` first; empty if not measured
    unexplained   seconds of a step that the measurements leave open
    ceilings      limits that the rule used, seconds per step
    not_measured  what it would have used besides
    """

    cause: Cause
    measurements: StepMeasurements
    seconds: Mapping[Cause, float] = field(default_factory=dict)
    unexplained: float = 0.0
    ceilings: Mapping[Ceiling, float] = field(default_factory=dict)
    not_measured: tuple[Gap, ...] = ()

    @property
    def shares(self) -> dict[str, float]:
        """Fractions of the step by name of `SHARES`; empty if not measured."""
        step = self.measurements.step
        if not self.seconds or not step:
            return {}
        found = dict.fromkeys(SHARES, 0.0)
        found[_UNEXPLAINED] = self.unexplained / step
        for cause, seconds in self.seconds.items():
            found[_COUNTED_AS.get(cause, cause)] += seconds / step
        return found

    @property
    def share(self) -> float | None:
        """The named cause's fraction of the step; None if it names none."""
        step = self.measurements.step
        return self.seconds[self.cause] / step if step and self.cause in self.seconds else None

    @property
    def lost(self) -> float:
        """Seconds of the step that are not computing."""
        compute = self.seconds.get(Cause.COMPUTE, 0.0)
        return (self.measurements.step or 0.0) - compute if self.seconds else 0.0

    @property
    def names_a_cause(self) -> bool:
        """Whether something besides computing bounds the point."""
        return self.cause not in {Cause.COMPUTE, Cause.NOT_MEASURED}

    @property
    def note(self) -> Note:
        """The evidence of the verdict."""
        figures = {name: value for name, value in _figures(self) if value is not None}
        # Nothing else explains the loss, but GPUs that wait do not bound the point.
        waits = self.cause is Cause.COMPUTE and "gpu" in figures
        kind = NoteKind.BOUND_BY_COMPUTE_GPU_WAITS if waits else NOTE_KINDS[self.cause]
        return Note(kind, figures)


def verdict(known: StepMeasurements) -> Verdict:
    """Return what bounds a step.

    The seconds beyond the step of one device alone are attributed once each, in this order: cores
    (or interference), the slowest rank, input; what is left is exchange: link, server or
    synchronization. A cause is named if it takes 8 % of the step, half of what is lost and
    1.5 times the next cause.
    """
    alone = known.alone if known.alone is not None else known.own
    missing = tuple(_gaps(known))
    if known.step is None or known.input is None or alone is None:
        return Verdict(cause=Cause.NOT_MEASURED, measurements=known, not_measured=missing)
    budget = _Budget(known, min(alone, known.step))
    budget.attribute()
    if LEAST_SHARE * known.step <= budget.lost < known.noise:
        missing = (*missing, Gap.PRECISION)
    seconds = {Cause.COMPUTE: min(alone, known.step)} | budget.seconds
    return Verdict(
        cause=_named(known, budget),
        measurements=known,
        seconds=seconds,
        unexplained=budget.unexplained,
        ceilings=dict(_ceilings(known)),
        not_measured=missing,
    )


class _Budget:
    """The lost seconds of a step while they are attributed, each once."""

    def __init__(self, known: StepMeasurements, compute: float) -> None:
        self.known, self.lost = known, (known.step or 0.0) - compute
        self.left, self.unexplained = self.lost, 0.0
        self.seconds: dict[Cause, float] = {}

    def take(self, cause: Cause, seconds: float | None) -> None:
        """Attribute at most these of the seconds that are left."""
        taken = max(0.0, min(seconds or 0.0, self.left))
        if taken > 0:
            self.seconds[cause] = self.seconds.get(cause, 0.0) + taken
            self.left -= taken

    def attribute(self) -> None:
        """Attribute all lost seconds."""
        known = self.known
        if known.disturbances:
            self.take(Cause.MACHINE, self.left)
            return
        disturbed = (known.other_cores or 0.0) > _OTHERS_ABOVE
        cores = Cause.INTERFERENCE if disturbed else Cause.CORES
        if known.own is not None and known.own_alone is not None:
            self.take(cores, known.own - known.own_alone)
        self.take(Cause.STRAGGLER, known.slow_rank.seconds if known.slow_rank else 0.0)
        slow = known.reading is None or known.reading >= _READING_SHARE * (known.step or 0.0)
        # Readers that are fast enough alone wait for a core while the job trains.
        self.take(Cause.INPUT if slow else cores, known.input)
        if disturbed:
            self.take(cores, known.server_delay)
        if known.workers > 1 or known.servers:
            self._exchange()
        if self.left > _ROUNDING * self.lost:
            self.unexplained, self.left = self.left, 0.0

    @property
    def _cores_known(self) -> bool:
        """Whether computing beside other workers is compared with computing alone."""
        known = self.known
        return known.own is not None and (known.alone is None or known.own_alone is not None)

    def _exchange(self) -> None:
        """Attribute what is left to the link, the servers or synchronization."""
        link, server, left = self.known.link, self.known.server, self.left
        limits = {Cause.LINK: link}
        if not self.known.messages_bound:
            limits[Cause.SERVER] = server
        explaining = {
            cause: one for cause, one in limits.items() if one and one >= _EXPLAINS * left
        }
        known = {cause: one for cause, one in limits.items() if one}
        if not explaining and sum(known.values()) >= _BOTH_EXPLAIN * left:
            explaining = known
        first = max(explaining, key=explaining.__getitem__, default=None)
        if first is None:
            if link is not None and server is not None and self._cores_known:
                self.take(Cause.SYNC, left)
            return
        others = [one for cause, one in explaining.items() if cause != first]
        alone = explaining[first] >= _EXPLAINS * left
        if alone and all(explaining[first] >= _ABOVE_OTHER * one for one in others):
            self.take(first, left)
            return
        whole = sum(explaining.values())
        for cause, one in explaining.items():
            self.take(cause, left * one / whole)


def _named(known: StepMeasurements, budget: _Budget) -> Cause:
    step = known.step or 0.0
    if budget.lost < LEAST_SHARE * step:
        return Cause.COMPUTE
    if budget.lost < known.noise:
        return Cause.NOT_MEASURED
    parts: dict[Cause, float] = {**budget.seconds, Cause.NOT_MEASURED: budget.unexplained}
    ordered = sorted(parts, key=parts.__getitem__, reverse=True)
    first, following = parts[ordered[0]], parts[ordered[1]] if len(ordered) > 1 else 0.0
    stands_out = (
        first >= LEAST_SHARE * step
        and first >= _LEAST_OF_LOST * budget.lost
        and first >= _LEAST_LEAD * following
    )
    if stands_out:
        return ordered[0]
    # No cause is certain if most of the loss is open.
    return Cause.NOT_MEASURED if ordered[0] is Cause.NOT_MEASURED else Cause.SEVERAL


def _gaps(known: StepMeasurements) -> Iterator[Gap]:
    exchanges = known.workers > 1 or known.servers > 0
    wanted = {
        Gap.STEP: known.step,
        Gap.INPUT: known.input,
        Gap.OWN: known.own,
        Gap.ALONE: known.alone,
        Gap.MACHINES: known.other_cores,
        Gap.READING: known.reading if known.reads else 0.0,
        Gap.LINK: known.link if exchanges else 0.0,
        Gap.SERVERS: known.server if exchanges else 0.0,
    }
    yield from (name for name, value in wanted.items() if value is None)


def _ceilings(known: StepMeasurements) -> Iterator[tuple[Ceiling, float]]:
    found = {
        Ceiling.READING: known.reading if known.reads else None,
        Ceiling.LINK: known.link,
        Ceiling.STORE: known.store,
        Ceiling.SERVERS: known.server,
    }
    yield from ((name, value) for name, value in found.items() if value)


def _figures(found: Verdict) -> Iterator[tuple[str, Any]]:
    """Yield the figures of the sentence on a verdict (notes.toml)."""
    known = found.measurements
    if found.cause is Cause.NOT_MEASURED:
        yield "what", [str(one) for one in found.not_measured] or ["the cause of the lost time"]
        return
    assert known.step is not None  # every other cause needs it
    yield "step", known.step
    yield "seconds", found.seconds.get(found.cause, found.lost)
    yield "share", found.seconds.get(found.cause, found.lost) / known.step
    if found.cause is Cause.COMPUTE:
        yield "gpu", known.low_gpu_utilization
    elif found.cause is Cause.LINK:
        yield "ceiling", known.link
    elif found.cause is Cause.SERVER:
        yield "ceiling", known.server
    elif found.cause is Cause.STRAGGLER and known.slow_rank:
        yield from (("slow", known.slow_rank.rank), ("on", known.slow_rank.host))
    elif found.cause in {Cause.CORES, Cause.INTERFERENCE}:
        yield from (("own", known.own), ("alone", known.own_alone), ("cores", known.other_cores))
    elif found.cause is Cause.MACHINE:
        yield "kinds", [str(one) for one in known.disturbances]
    elif found.cause is Cause.SEVERAL:
        parts = {c: s / known.step for c, s in found.seconds.items() if c is not Cause.COMPUTE}
        ordered = sorted(parts, key=parts.__getitem__, reverse=True)
        yield "parts", [f"{cause} {100 * parts[cause]:.0f} %" for cause in ordered[:3]]
