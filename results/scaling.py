"""Rows of a run: each point with its speed-ups and efficiencies by baseline."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bench.notes import Note, NoteKind, merged, texts
from bench.settings.point_names import point_names
from bench.trial import Trial
from results.explain.measurements import StepMeasurements, point_measurements
from results.explain.verdict import NOTE_KINDS, Verdict, verdict
from results.quality import Quality, judge
from results.rates import ASSUMED_SCATTER, Rate, pool_repeats
from results.record import Record, differing_values, grouped
from results.repeat import RepeatSummary, TimeToAccuracy, summarize, time_to_accuracy
from results.speedup import (
    COLUMNS,
    UNMEASURED,
    Baseline,
    BaselineChoice,
    Scaling,
    apply_baseline,
    baseline_of,
    choose_baselines,
    scaling_over,
)

_TRAINING = ("synthetic", "real")
_VERDICTS = frozenset(NOTE_KINDS.values())


def mb_per_second(trial: Trial, rate: Rate) -> float:
    """Return the MB/s (10^6 bytes) that one worker pushes and pulls at the same time."""
    return rate.images_per_second / trial.workers / 1e6


def bandwidth_note(trial: Trial, rate: Rate) -> Note:
    """Return the note with a bandwidth point's result, with its CI if known."""
    value = mb_per_second(trial, rate)
    if rate.low is None or rate.high is None:
        return Note(NoteKind.BANDWIDTH_ALONE, {"mb_per_second": value})
    low, high = (end / trial.workers / 1e6 for end in (rate.low, rate.high))
    return Note(NoteKind.BANDWIDTH, {"mb_per_second": value, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class ScalingRow:
    """All repeats of one point.

    name        its name among the points of its run, with the fields that distinguish it
    status      that of the record that is not ok; else ok, or unstable if most repeats have no
                steady state
    rate        throughput; None unless all its records are ok
    device      vs 1 device (without servers if that was measured)
    host        vs 1 full host; None for smaller points
    worker      vs 1 worker through the same distributed store
    baseline    vs `chosen_baseline`, the baseline that the user chose, if any
    message     why it is not ok
    notes       caveats and facts about the result, of all repeats
    repeats     summaries of the repeats' records
    quality     whether its figures can be published; None without a result, and for simulations
    quality_notes  the reasons against a better quality
    verdict     what bounds it; None without a result, and for points that do not train
    """

    trial: Trial
    name: str
    status: str
    message: str = ""
    rate: Rate | None
    emulated: bool
    repeats: tuple[RepeatSummary, ...] = ()
    device: Scaling | None = None
    host: Scaling | None = None
    worker: Scaling | None = None
    baseline: Scaling | None = None
    chosen_baseline: Baseline | None = None
    notes: tuple[Note, ...] = ()
    quality: Quality | None = None
    quality_notes: tuple[Note, ...] = ()
    verdict: Verdict | None = None

    @property
    def shown_scaling(self) -> Scaling | None:
        """The scaling that figures show: vs the chosen baseline, else vs 1 device."""
        return self.baseline if self.chosen_baseline else self.device

    @property
    def scalings(self) -> dict[str, Scaling]:
        """Its scalings by baseline, keyed by the suffix of the columns in results.csv."""
        return {name: one for name in (*COLUMNS, "baseline") if (one := getattr(self, name))}

    @property
    def ratios(self) -> dict[str, float | None]:
        """Its speed-ups and efficiencies with CI ends, keyed by column of results.csv."""
        found: dict[str, float | None] = {}
        for name, against in self.scalings.items():
            found[f"speedup_{name}"] = against.speedup.value
            found[f"efficiency_{name}"] = against.efficiency.value
            found[f"efficiency_{name}_low"] = against.efficiency.low
            found[f"efficiency_{name}_high"] = against.efficiency.high
        return found

    @property
    def accuracies(self) -> tuple[float, ...]:
        """The last validation accuracy of each good repeat that trained on real data."""
        good = self.repeats if self.rate else ()
        return tuple(one.accuracy for one in good if one.accuracy is not None)

    @property
    def accuracy(self) -> float | None:
        """The mean of `accuracies`."""
        found = self.accuracies
        return math.fsum(found) / len(found) if found else None

    @cached_property
    def time_to_accuracy(self) -> TimeToAccuracy | None:
        """Time to the stop accuracy; also of points with failed repeats."""
        return time_to_accuracy(self.repeats)

    @property
    def elapsed_seconds(self) -> float:
        """Seconds of all repeats, including start-up."""
        return math.fsum(one.elapsed_seconds for one in self.repeats)

    @property
    def peak_memory_bytes(self) -> int | None:
        """Peak memory in bytes of the rank that used most."""
        found = [one.peak_memory_bytes for one in self.repeats if one.peak_memory_bytes]
        return max(found, default=None)

    @property
    def peak_device_memory_bytes(self) -> int | None:
        """Peak memory in bytes of the fullest GPU."""
        found = [one.peak_device_memory_bytes for one in self.repeats]
        return max(filter(None, found), default=None)

    @property
    def gpu_utilization(self) -> float | None:
        """Mean share of the measured time in which the GPUs were busy."""
        found = self._of_repeats("gpu_utilization")
        return math.fsum(found) / len(found) if found else None

    @property
    def gpu_temperature(self) -> float | None:
        """Highest temperature of a GPU in °C."""
        return max(self._of_repeats("gpu_temperature"), default=None)

    @property
    def gpu_clock(self) -> float | None:
        """Lowest SM clock of a GPU as a share of its maximum."""
        return min(self._of_repeats("gpu_clock"), default=None)

    def _of_repeats(self, name: str) -> list[float]:
        """Return the values of the repeats that have this figure."""
        return [value for one in self.repeats if (value := getattr(one, name)) is not None]

    @property
    def sources(self) -> list[str]:
        """The sources of imported or reported figures, each once; empty if measured."""
        return list(dict.fromkeys(one.source for one in self.repeats if one.source))

    @property
    def standing(self) -> str:
        """'measured', 'rehearsal' (simulated), 'reported' (by a program) or 'imported'."""
        if self.trial.scripted:
            return "rehearsal"
        if self.trial.reported:
            return "reported"
        return "imported" if self.sources else "measured"

    @property
    def window_seconds(self) -> tuple[float, ...]:
        """Seconds of every steady window of all repeats."""
        good = self.repeats if self.rate else ()
        return tuple(seconds for one in good for seconds, _ in one.steady_windows)

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """Its notes and the assumption behind its CI (tables print that once for all)."""
        assumed = Note(NoteKind.VARIANCE_ASSUMED, {"scatter": ASSUMED_SCATTER})
        return (*self.notes, assumed) if self.rate and self.rate.assumed else self.notes

    @property
    def note_text(self) -> str:
        """The cause of a missing result, and the point's notes, in words."""
        return "; ".join(filter(None, (self.message, *texts(self.notes))))

    @cached_property
    def headline_kinds(self) -> tuple[NoteKind, ...]:
        """The kinds of its notes that are caveats, each once; empty: no mark needed."""
        return tuple(dict.fromkeys(note.kind for note in self.notes if note.kind.headline))

    @cached_property
    def uncertain(self) -> bool:
        """Whether the CI of its throughput, or of an efficiency, makes the value useless."""
        efficiencies = [one.efficiency for one in self.scalings.values()]
        found = [self.rate.ratio, *efficiencies] if self.rate else []
        return any(one.is_uninformative for one in found)

    @property
    def has_caveats(self) -> bool:
        """Whether tables and figures mark the point: it has caveats that a summary names."""
        return bool(self.rate and (self.headline_kinds or self.uncertain))

    @property
    def is_ringed(self) -> bool:
        """Whether figures ring the point; an oversubscribed one is hollow instead."""
        return self.has_caveats or (self.quality is Quality.DOUBTFUL and not self.emulated)


def scaling(records: Sequence[Record]) -> list[ScalingRow]:
    """Return one row per trial, in the order of the records; pools repeats."""
    return rows_of([summarize(record) for record in records])


def rows_of(found: Sequence[RepeatSummary], unmeasured: Sequence[Trial] = ()) -> list[ScalingRow]:
    """Return one row per trial, in the order given; pools repeats.

    One failed repeat makes its point failed: throughput is never computed from the others alone.
    Requested trials without a record have no row; no other point replaces them as a baseline.
    """
    groups = grouped((one.identity.key, one) for one in found)
    names = point_names([group[-1].trial for group in groups.values()])
    points = [_point(name, group) for name, group in zip(names, groups.values(), strict=True)]
    points += _unmeasured(unmeasured)
    chosen = choose_baselines(points)[: len(groups)]
    alone: dict[int, StepMeasurements] = {}
    return [
        _row(point, one.points, one.notes, alone)
        for point, one in zip(points, chosen, strict=False)
    ]


def with_chosen_baseline(
    rows: Sequence[ScalingRow], wanted: Baseline, unmeasured: Sequence[Trial] = ()
) -> list[ScalingRow]:
    """Return the rows with scaling vs this baseline, or a note if there is none."""
    points = [*rows, *_unmeasured(unmeasured)]
    chosen, usual = apply_baseline(points, wanted), choose_baselines(points)
    found = []
    for row, one, other in zip(rows, chosen, usual, strict=False):
        base = one.points.get("baseline")
        scaled = replace(
            row,
            chosen_baseline=wanted,
            baseline=scaling_over(row, base) if base else None,
            notes=(*row.notes, *one.notes, *_by_total(row, one)) if row.rate else row.notes,
        )
        found.append(_judged(scaled, {**other.points, **one.points}))
    return found


def _judged(row: ScalingRow, bases: Mapping[str, ScalingRow]) -> ScalingRow:
    """Return the row with its quality."""
    found = judge(row, bases)
    return replace(row, quality=found.quality, quality_notes=found.notes)


def _by_total(row: ScalingRow, chosen: BaselineChoice[ScalingRow]) -> Iterator[Note]:
    """Yield the whole-job speed-up vs the baseline if both logs have total times."""
    base = chosen.points.get("baseline")
    if not base or base.trial.key == row.trial.key:
        return
    own, other = (_total(one) for one in (row, base))
    if own and other and own[0] == other[0]:
        speedup = other[1] / own[1]
        figures = {
            "epochs": own[0],
            "baseline": str(baseline_of(base.trial)),
            "speedup": speedup,
            "efficiency": speedup * base.trial.layout.devices / row.trial.layout.devices,
        }
        yield Note(NoteKind.LOG_TOTAL_SPEEDUP, figures)


def _total(row: ScalingRow) -> tuple[int, float] | None:
    """Return the epochs and total seconds of an imported job, if its log has both."""
    for note in row.notes:
        epochs, seconds = note.figures.get("epochs"), note.figures.get("seconds")
        if note.kind is not NoteKind.LOG_TOTAL or not isinstance(epochs, int):
            continue
        if isinstance(seconds, int | float) and epochs > 0 and seconds > 0:
            return epochs, float(seconds)
    return None


def _point(name: str, group: Sequence[RepeatSummary]) -> ScalingRow:
    """Return the row of these repeats, without scaling."""
    bad = next((one for one in group if one.samples is None), None)
    newest = bad or group[-1]
    # A point is steady if at least half of its repeats are.
    settled = "ok" if 2 * sum(one.unsteady for one in group) <= len(group) else "unstable"
    return ScalingRow(
        trial=newest.trial,
        name=name,
        rate=None if bad else pool_repeats([one.samples for one in group if one.samples]),
        status=bad.status if bad else settled,
        message=bad.message if bad else "",
        emulated=newest.emulated,
        repeats=tuple(group),
    )


def _unmeasured(trials: Sequence[Trial]) -> list[ScalingRow]:
    return [
        ScalingRow(trial=one, name=one.name, rate=None, status=UNMEASURED, emulated=False)
        for one in trials
    ]


def _row(
    point: ScalingRow,
    bases: Mapping[str, ScalingRow],
    empty: Sequence[Note],
    alone: dict[int, StepMeasurements],
) -> ScalingRow:
    """Return the row with its scalings and notes.

    `alone` keeps the measurements of baselines, by their identity: many points have the same one.
    """
    if point.rate is None:
        failed = sum(one.samples is None for one in point.repeats)
        some = failed < len(point.repeats)  # the others have a result
        figures = {"failed": failed, "of": len(point.repeats)}
        counted = [Note(NoteKind.FAILED_REPEATS, figures)] if some else []
        return replace(point, notes=(*counted, *_times(point)))
    notes = [
        *_reached(point),
        *_times(point),
        *([bandwidth_note(point.trial, point.rate)] if point.trial.mode == "bandwidth" else []),
        *merged([one.notes for one in point.repeats]),
        *_unlike(point, bases),
        *empty,
    ]
    found: dict[str, Any] = {name: scaling_over(point, base) for name, base in bases.items()}
    judged = _judged(replace(point, notes=tuple(notes), **found), bases)
    if point.trial.mode not in _TRAINING:
        return judged
    base = bases.get("device")
    return with_verdict(judged, _measurements(point, base, alone))


def _measurements(
    point: ScalingRow, base: ScalingRow | None, alone: dict[int, StepMeasurements]
) -> StepMeasurements:
    """Return the measurements of a point's step and of one device alone."""
    if base is None or base.trial.device_batch != point.trial.device_batch:
        return point_measurements(point.repeats, point.rate)
    if id(base) not in alone:
        alone[id(base)] = point_measurements(base.repeats, base.rate)
    return point_measurements(point.repeats, point.rate, alone[id(base)])


def with_verdict(row: ScalingRow, known: StepMeasurements) -> ScalingRow:
    """Return the row with the verdict on these measurements, and with its note."""
    found = verdict(known)
    kept = tuple(note for note in row.notes if note.kind not in _VERDICTS)
    own = (found.note,) if found.names_a_cause else ()
    return replace(row, verdict=found, notes=(*kept, *own))


def with_link(rows: Sequence[ScalingRow], bytes_per_second: float | None) -> list[ScalingRow]:
    """Return the rows whose verdicts know the speed of TCP between the run's hosts."""
    if bytes_per_second is None:
        return list(rows)
    return [
        with_verdict(row, replace(row.verdict.measurements, tcp_bytes_per_second=bytes_per_second))
        if row.verdict and row.trial.hosts > 1
        else row
        for row in rows
    ]


def _unlike(point: ScalingRow, bases: Mapping[str, ScalingRow]) -> Iterator[Note]:
    """Yield notes if variables or instructions differ between repeats or baseline."""
    own = [one.conditions for one in point.repeats]
    if differing := differing_values(own):
        for name, values in differing.items():
            yield Note(NoteKind.CONDITIONS_DIFFER, {"name": name, "values": values})
        return
    for base in bases.values():
        if differing := differing_values([*own, *(one.conditions for one in base.repeats)]):
            for name, values in differing.items():
                figures = {"base": base.name, "name": name, "values": values}
                yield Note(NoteKind.BASE_CONDITIONS_DIFFER, figures)
            return


def _reached(point: ScalingRow) -> Iterator[Note]:
    """Yield the last validation accuracies of a point that trained on real data."""
    found = point.accuracies
    if len(set(found)) == 1:
        yield Note(NoteKind.ACCURACY, {"accuracy": found[0]})
    elif found:
        figures = {"mean": sum(found) / len(found), "accuracy": [*found], "repeats": len(found)}
        yield Note(NoteKind.ACCURACIES, figures)


def _times(point: ScalingRow) -> Iterator[Note]:
    """Yield the time to the stop accuracy, and what the other repeats trained."""
    found = point.time_to_accuracy
    if found is None:
        return
    figures: dict[str, Any] = {"target": found.target, "repeats": found.repeats}
    if found.reached:
        figures |= {"seconds": found.seconds, "epochs": found.epochs, "reached": len(found.reached)}
        kind = NoteKind.TIME_TO_ACCURACY_ALONE
        if ends := found.interval:
            figures |= {"low": ends[0], "high": ends[1]}
            kind = NoteKind.TIME_TO_ACCURACY
        yield Note(kind, figures)
    missed = [(number, one.missed) for number, one in enumerate(point.repeats, 1) if one.missed]
    if missed:
        short = {
            "target": found.target,
            "accuracy": [one.accuracy for _, one in missed],
            "seconds": [one.seconds for _, one in missed],
            "epochs": [one.epochs for _, one in missed],
        }
        of = len(point.repeats)
        scope = {"repeats": [n for n, _ in missed], "of": of} if of > 1 else {}
        yield Note(NoteKind.ACCURACY_MISSED, short, scope)


# Throughput saturates at the fewest threads that reach this fraction of the best: less is noise.
_AS_GOOD = 0.95


def knees(rows: Sequence[ScalingRow]) -> list[str]:
    """Return one sentence per series of input points that differ in threads only."""
    series: dict[Trial, dict[int, Rate]] = {}
    for row in rows:
        if row.trial.mode == "test-io" and row.rate:
            alike = row.trial.replace(data_nthreads=1)
            series.setdefault(alike, {})[row.trial.data.nthreads] = row.rate
    return [_knee(rates) for rates in series.values() if len(rates) > 1]


def _knee(rates: dict[int, Rate]) -> str:
    best = max(rate.images_per_second for rate in rates.values())
    good = [n for n, rate in rates.items() if rate.images_per_second >= _AS_GOOD * best]
    least = min(good)
    threads = f"{least} thread{'s' if least > 1 else ''}"
    reached = f"{rates[least].images_per_second:,.0f} images/s"
    halves = (rate.relative_half_width for rate in rates.values())
    worst = max(math.inf if half is None else half for half in halves)
    if worst > 1 - _AS_GOOD:
        width = f"95 % CI up to ±{100 * worst:.0f} %" if math.isfinite(worst) else "no 95 % CI"
        return f"{threads}: {reached}; too uncertain to find where throughput saturates ({width})."
    if least == max(rates):
        return f"Throughput does not saturate up to {threads} ({reached}), the most measured."
    return f"Throughput saturates at {threads} ({reached})."
