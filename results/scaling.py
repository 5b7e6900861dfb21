"""Rows of a run: each point with its speed-up and efficiency per baseline."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.notes import Note, NoteKind, merged, texts
from bench.trial import Trial
from results.rates import ASSUMED_SCATTER, Rate, pool_repeats
from results.record import Record, differing_values, grouped
from results.repeat import RepeatSummary, summarize
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


def mb_per_second(trial: Trial, rate: Rate) -> float:
    """10^6 bytes a second that one worker pushes, and as many that it pulls meanwhile."""
    return rate.images_per_second / trial.workers / 1e6


def bandwidth_note(trial: Trial, rate: Rate) -> Note:
    """What a point of bandwidth has come to; without ends if its spread is not known."""
    value = mb_per_second(trial, rate)
    if rate.low is None or rate.high is None:
        return Note(NoteKind.BANDWIDTH_ALONE, {"mb_per_second": value})
    low, high = (end / trial.workers / 1e6 for end in (rate.low, rate.high))
    return Note(NoteKind.BANDWIDTH, {"mb_per_second": value, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class ScalingRow:
    """All repeats of one trial.

    status      of the record that is not ok, else ok, or unstable if most repeats were unsteady
    rate        None unless all its records are ok
    device      against one device (without servers where that was measured)
    host        against one full host; None for points smaller than that
    worker      against one worker through the same distributed store
    baseline    against `chosen_baseline`, the baseline that the report was asked for, if any
    message     why it is not ok
    notes       what a reader must know of it, of all repeats
    repeats     what each repeat's record says
    """

    trial: Trial
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

    @property
    def shown_scaling(self) -> Scaling | None:
        """What figures show: against the baseline asked for, else against one device."""
        return self.baseline if self.chosen_baseline else self.device

    @property
    def scalings(self) -> dict[str, Scaling]:
        """What it stands against, by the ends of the columns' names in results.csv."""
        return {name: one for name in (*COLUMNS, "baseline") if (one := getattr(self, name))}

    @property
    def ratios(self) -> dict[str, float | None]:
        """Its speed-ups and efficiencies, with their ends, by their names in results.csv."""
        found: dict[str, float | None] = {}
        for name, against in self.scalings.items():
            found[f"speedup_{name}"] = against.speedup.value
            found[f"efficiency_{name}"] = against.efficiency.value
            found[f"efficiency_{name}_low"] = against.efficiency.low
            found[f"efficiency_{name}_high"] = against.efficiency.high
        return found

    @property
    def accuracies(self) -> tuple[float, ...]:
        """Of each good repeat's last validation, where the trial trained on real data."""
        good = self.repeats if self.rate else ()
        return tuple(one.accuracy for one in good if one.accuracy is not None)

    @property
    def accuracy(self) -> float | None:
        """The mean of `accuracies`."""
        found = self.accuracies
        return math.fsum(found) / len(found) if found else None

    @property
    def elapsed_seconds(self) -> float:
        """Of all repeats, with what starting them took."""
        return math.fsum(one.elapsed_seconds for one in self.repeats)

    @property
    def peak_memory_bytes(self) -> int | None:
        """Of the rank that used most memory."""
        found = [one.peak_memory_bytes for one in self.repeats if one.peak_memory_bytes]
        return max(found, default=None)

    @property
    def sources(self) -> list[str]:
        """Where imported figures come from, each once; none: mxscale measured them."""
        return list(dict.fromkeys(one.source for one in self.repeats if one.source))

    @property
    def standing(self) -> str:
        """Whether the figures are 'measured', of a 'rehearsal', or 'imported'."""
        if self.trial.engine == "fake":
            return "rehearsal"
        return "imported" if self.sources else "measured"

    @property
    def window_seconds(self) -> tuple[float, ...]:
        """Of every window that counts, of all repeats."""
        good = self.repeats if self.rate else ()
        return tuple(seconds for one in good for seconds, _ in one.steady_windows)

    @property
    def all_notes(self) -> tuple[Note, ...]:
        """Its notes and what its interval assumes, which a table says once for all its rows."""
        assumed = Note(NoteKind.VARIANCE_ASSUMED, {"scatter": ASSUMED_SCATTER})
        return (*self.notes, assumed) if self.rate and self.rate.assumed else self.notes

    @property
    def note_text(self) -> str:
        """Why the point has no number, and what a reader must know of it, in words."""
        return "; ".join(filter(None, (self.message, *texts(self.notes))))

    @property
    def headline_kinds(self) -> tuple[NoteKind, ...]:
        """The kinds of its notes that the summary names, each once; none: it needs no mark."""
        return tuple(dict.fromkeys(note.kind for note in self.notes if note.kind.headline))


def scaling(records: Sequence[Record]) -> list[ScalingRow]:
    """One row per trial, in the order of the records given; repeats are taken together."""
    return rows_of([summarize(record) for record in records])


def rows_of(found: Sequence[RepeatSummary], unmeasured: Sequence[Trial] = ()) -> list[ScalingRow]:
    """One row per trial, in the order given; repeats are taken together.

    A repeat that is not ok makes its point not ok: a rate is never taken over what is left.
    Trials that were asked for and are not measured yet have no row; nothing stands in for them
    as a baseline.
    """
    groups = grouped((one.identity.key, one) for one in found)
    points = [_point(group) for group in groups.values()]
    points += _unmeasured(unmeasured)
    chosen = choose_baselines(points)[: len(groups)]
    return [_row(point, one.points, one.notes) for point, one in zip(points, chosen, strict=False)]


def with_chosen_baseline(
    rows: Sequence[ScalingRow], wanted: Baseline, unmeasured: Sequence[Trial] = ()
) -> list[ScalingRow]:
    """The rows with what each is against this baseline, and why if it is nothing."""
    chosen = apply_baseline([*rows, *_unmeasured(unmeasured)], wanted)
    return [
        replace(
            row,
            chosen_baseline=wanted,
            baseline=scaling_over(row, base) if (base := one.points.get("baseline")) else None,
            notes=(*row.notes, *one.notes, *_by_total(row, one)) if row.rate else row.notes,
        )
        for row, one in zip(rows, chosen, strict=False)
    ]


def _by_total(row: ScalingRow, chosen: BaselineChoice[ScalingRow]) -> Iterator[Note]:
    """What logs of whole jobs come to against the baseline's, if both say how long they took."""
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
    """The epochs of an imported job and the seconds that they took, if its log has both."""
    for note in row.notes:
        epochs, seconds = note.figures.get("epochs"), note.figures.get("seconds")
        if note.kind is not NoteKind.LOG_TOTAL or not isinstance(epochs, int):
            continue
        if isinstance(seconds, int | float) and epochs > 0 and seconds > 0:
            return epochs, float(seconds)
    return None


def _point(group: Sequence[RepeatSummary]) -> ScalingRow:
    """The row of these repeats, not yet against any baseline."""
    bad = next((one for one in group if one.samples is None), None)
    newest = bad or group[-1]
    # Steady: at least half of its repeats are.
    settled = "ok" if 2 * sum(one.unsteady for one in group) <= len(group) else "unstable"
    return ScalingRow(
        trial=newest.trial,
        rate=None if bad else pool_repeats([one.samples for one in group if one.samples]),
        status=bad.status if bad else settled,
        message=bad.message if bad else "",
        emulated=newest.emulated,
        repeats=tuple(group),
    )


def _unmeasured(trials: Sequence[Trial]) -> list[ScalingRow]:
    return [ScalingRow(trial=one, rate=None, status=UNMEASURED, emulated=False) for one in trials]


def _row(point: ScalingRow, bases: Mapping[str, ScalingRow], empty: Sequence[Note]) -> ScalingRow:
    """The row with what it is against, and what a reader must know of it."""
    if point.rate is None:
        failed = sum(one.samples is None for one in point.repeats)
        some = failed < len(point.repeats)  # others have a number
        figures = {"failed": failed, "of": len(point.repeats)}
        return replace(point, notes=(Note(NoteKind.FAILED_REPEATS, figures),) if some else ())
    notes = [
        *_reached(point),
        *([bandwidth_note(point.trial, point.rate)] if point.trial.mode == "bandwidth" else []),
        *merged([one.notes for one in point.repeats]),
        *_unlike(point, bases),
        *empty,
    ]
    found: dict[str, Any] = {name: scaling_over(point, base) for name, base in bases.items()}
    return replace(point, notes=tuple(notes), **found)


def _unlike(point: ScalingRow, bases: Mapping[str, ScalingRow]) -> Iterator[Note]:
    """In what a point ran with other variables or instructions than itself or a base, once."""
    own = [one.conditions for one in point.repeats]
    if differing := differing_values(own):
        for name, values in differing.items():
            yield Note(NoteKind.CONDITIONS_DIFFER, {"name": name, "values": values})
        return
    for base in bases.values():
        if differing := differing_values([*own, *(one.conditions for one in base.repeats)]):
            for name, values in differing.items():
                figures = {"base": base.trial.name, "name": name, "values": values}
                yield Note(NoteKind.BASE_CONDITIONS_DIFFER, figures)
            return


def _reached(point: ScalingRow) -> Iterator[Note]:
    """The accuracy of each repeat's last validation, if it trained on real data."""
    found = point.accuracies
    if len(set(found)) == 1:
        yield Note(NoteKind.ACCURACY, {"accuracy": found[0]})
    elif found:
        figures = {"mean": sum(found) / len(found), "accuracy": [*found], "repeats": len(found)}
        yield Note(NoteKind.ACCURACIES, figures)


# Fewer threads that reach this part of the best rate are as good: differences below are noise.
_AS_GOOD = 0.95


def knees(rows: Sequence[ScalingRow]) -> list[str]:
    """A sentence for each series of test-io points that differ in their threads alone."""
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
    gives = "1 thread gives" if least == 1 else f"{least} threads give"
    halves = (rate.relative_half_width for rate in rates.values())
    worst = max(math.inf if half is None else half for half in halves)
    if worst > 1 - _AS_GOOD:
        known = f"known to {100 * worst:.0f} % only" if math.isfinite(worst) else "not known well"
        end = f"whether more or fewer do as well cannot be said, the rates are {known}"
    elif least == max(rates):
        end = "the most of those measured: no knee up to there"
    else:
        end = "more do not help (knee)"
    return f"{gives} {rates[least].images_per_second:,.0f} images/s; {end}."
