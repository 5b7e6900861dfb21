"""ScalingRow: one point of a sweep with its speed-up and efficiency against each baseline."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.trial import Trial
from results.bandwidth import sentence
from results.conditions import differences
from results.measured import Measured, measured
from results.rates import Rate, together
from results.record import Record
from results.speedup import (
    Against,
    Baseline,
    EmptyCell,
    Reason,
    against,
    baselines,
    chosen_baseline,
)


@dataclass(frozen=True, kw_only=True)
class ScalingRow:
    """All repeats of one trial.

    status      of the record that is not ok, else ok, or unstable: see `_settled`
    rate        None unless all its records are ok
    device      against one device (without servers where that was measured)
    host        against one full host; None for points smaller than that
    worker      against one worker through the same distributed store
    baseline    against `wanted`, the baseline that the report was asked for, if it was for one
    empty       the cells that have no number because of their baseline
    message     why it is not ok, or what a reader must know
    repeats     what each repeat's record says
    """

    trial: Trial
    status: str
    message: str
    rate: Rate | None
    emulated: bool
    repeats: tuple[Measured, ...] = ()
    device: Against | None = None
    host: Against | None = None
    worker: Against | None = None
    baseline: Against | None = None
    wanted: Baseline | None = None
    empty: tuple[EmptyCell, ...] = ()

    @property
    def shown(self) -> Against | None:
        """What figures show: against the baseline asked for, else against one device."""
        return self.baseline if self.wanted else self.device

    @property
    def accuracies(self) -> tuple[float, ...]:
        """Of each good repeat's last validation, where the trial trained on real data."""
        good = self.repeats if self.rate else ()
        return tuple(one.accuracy for one in good if one.accuracy is not None)

    @property
    def window_seconds(self) -> tuple[float, ...]:
        """Of every window that counts, of all repeats."""
        good = self.repeats if self.rate else ()
        return tuple(seconds for one in good for seconds, _ in one.steady_windows)

    @property
    def remark(self) -> str:
        """Why the point has no number, or what it reached besides one."""
        if not self.accuracies:
            return self.message
        least, most = min(self.accuracies), max(self.accuracies)
        reached = f"validation accuracy {sum(self.accuracies) / len(self.accuracies):.3f}"
        if least != most:
            reached += f" ({least:.3f} to {most:.3f} in {len(self.accuracies)} repeats)"
        return f"{reached}; {self.message}" if self.message else reached


@dataclass(frozen=True, kw_only=True)
class _Point:
    """What was asked for of one trial: a rate if all its repeats are good."""

    trial: Trial
    rate: Rate | None
    status: str
    emulated: bool
    repeats: tuple[Measured, ...] = ()

    @property
    def conditions(self) -> list[dict[str, str]]:
        return [one.conditions for one in self.repeats]


# A number that stands alone, not one of a host, a rank or a process.
AMOUNT = re.compile(r"(?<!\w)(?<!rank )(?<!processes )\d+(?:[.,]\d+)*(?= (?!on\b)|$)")


def scaling(records: Sequence[Record]) -> list[ScalingRow]:
    """One row per trial, in the order of the records given; repeats are taken together."""
    return rows_of([measured(record) for record in records])


def rows_of(found: Sequence[Measured], unmeasured: Sequence[Trial] = ()) -> list[ScalingRow]:
    """One row per trial, in the order given; repeats are taken together.

    A repeat that is not ok makes its point not ok: a rate is never taken over what is left.
    Trials that were asked for and are not measured yet have no row; nothing stands in for them
    as a baseline.
    """
    groups: dict[str, list[Measured]] = {}
    for one in found:
        groups.setdefault(one.identity.key, []).append(one)
    points = [_point(group) for group in groups.values()]
    points += _unmeasured(unmeasured)
    chosen = baselines(points)[: len(groups)]
    return [_row(point, one.points, one.empty) for point, one in zip(points, chosen, strict=False)]


def against_chosen(
    rows: Sequence[ScalingRow], wanted: Baseline, unmeasured: Sequence[Trial] = ()
) -> list[ScalingRow]:
    """The rows with what each is against this baseline, and why if it is nothing."""
    points: list[ScalingRow | _Point] = [*rows, *_unmeasured(unmeasured)]
    chosen = chosen_baseline(points, wanted)
    return [
        replace(
            row,
            wanted=wanted,
            baseline=against(row, base) if (base := one.points.get("baseline")) else None,
            empty=(*row.empty, *one.empty) if row.rate else row.empty,
            message="; ".join(filter(None, (row.message, *_empty(one.empty if row.rate else ())))),
        )
        for row, one in zip(rows, chosen, strict=False)
    ]


def _point(group: Sequence[Measured]) -> _Point:
    bad = next((one for one in group if one.parts is None), None)
    newest = bad or group[-1]
    settled = "ok" if _settled(group) else "unstable"
    return _Point(
        trial=newest.trial,
        rate=None if bad else together([one.parts for one in group if one.parts]),
        status=bad.status if bad else settled,
        emulated=newest.emulated,
        repeats=tuple(group),
    )


def _unmeasured(trials: Sequence[Trial]) -> list[_Point]:
    return [
        _Point(trial=one, rate=None, status=Reason.UNMEASURED, emulated=False) for one in trials
    ]


def _row(point: _Point, bases: Mapping[str, _Point], empty: Sequence[EmptyCell]) -> ScalingRow:
    row = ScalingRow(
        trial=point.trial,
        status=point.status,
        message="",
        rate=point.rate,
        emulated=point.emulated,
        repeats=point.repeats,
    )
    if point.rate is None:
        bad = next(one for one in point.repeats if one.parts is None)
        return replace(row, message=bad.message)
    said = [
        *_moved(point.trial, point.rate),
        *_told(point.repeats),
        *_unlike(point, bases),
        *_empty(empty),
    ]
    found = {name: against(point, base) for name, base in bases.items()}
    return replace(
        row,
        message="; ".join(said),
        empty=tuple(empty),
        device=found.get("device"),
        host=found.get("host"),
        worker=found.get("worker"),
    )


def _settled(group: Sequence[Measured]) -> bool:
    """Whether at least half of the repeats became steady, where a precision was to be reached."""
    unsteady = sum(bool(one.unsteady) for one in group)
    return not group[-1].trial.precision or 2 * unsteady <= len(group)


def _empty(empty: Sequence[EmptyCell]) -> list[str]:
    return [cell.sentence for cell in empty]


def _moved(trial: Trial, rate: Rate) -> list[str]:
    return [sentence(trial, rate)] if trial.mode == "bandwidth" else []


def _unlike(point: _Point, bases: Mapping[str, _Point]) -> Iterator[str]:
    """Says so where a point ran with other variables or instructions than a base of its, once."""
    if differing := differences(point.conditions):
        yield f"its repeats differ in {differing}"
        return
    for base in bases.values():
        if differing := differences([*point.conditions, *base.conditions]):
            yield f"it and its base {base.trial.name} differ in {differing}"
            return


def _told(group: Sequence[Measured]) -> Iterator[str]:
    """What its repeats have to say, each thing once; figures are those of the first that says it.

    Sentences that differ in their figures alone say the same thing.
    """
    said: dict[str, dict[int, str]] = {}
    for number, one in enumerate(group):
        source = one.source and f"not measured by mxscale: {one.source}"
        parts = [source, *one.message.split("; "), *one.told, one.unsteady]
        for part in filter(None, parts):
            said.setdefault(AMOUNT.sub("#", part), {}).setdefault(number, part)
    for sentences in (list(one.values()) for one in said.values()):
        alike = len(sentences) == len(group) and len(set(sentences)) == 1
        first = "" if len(set(sentences)) == 1 else ", the first is told"
        count = f" (in {len(sentences)} of {len(group)} repeats{first})"
        yield sentences[0] + ("" if alike else count)
