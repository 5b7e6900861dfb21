"""Comparison of two runs point by point, with tests corrected for many points."""

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from scipy.special import nctdtrinc, stdtr, stdtrit

from bench.notes import INTERFERENCE
from bench.settings.declaration import Role
from bench.statistics.confidence import (
    CONFIDENCE,
    StandardError,
    error_of_sum,
    standard_error_of_difference,
)
from bench.trial import Trial, values_of, with_role
from results.comparison.differences import Difference, Pairs, run_differences
from results.errors import StoreError
from results.rates import Rate, Ratio
from results.record import grouped
from results.run import Run
from results.scaling import ScalingRow

_CHANCE, _POWER = 1 - CONFIDENCE, 0.9
# Scripted windows scatter by nothing: their rates differ by rounding.
_ROUNDING = 1e-9
# Beyond it a relative difference is no longer told, and far below it floats end.
_MOST_ERRORS = 100.0

Pair = tuple[Rate, Rate]


@dataclass(frozen=True, kw_only=True)
class Significance:
    """Of one point among others.

    error       of log(B / A)
    significant  whether the difference is beyond chance, all points taken together
    detectable  the relative difference that 9 of 10 such comparisons would find
    """

    error: StandardError
    significant: bool
    detectable: float


def significances(pairs: Sequence[Pair]) -> list[Significance | None]:
    """Of each point, (A, B); None if either has a single figure, whose error is not known."""
    scatter = pooled_error(pairs)
    errors = {n: error for n, pair in enumerate(pairs) if (error := ratio_error(*pair, scatter))}
    strict = {n: _one_repeat_fewer(error, *pairs[n]) for n, error in errors.items()}
    chances = [
        p_value(math.log(b.images_per_second / a.images_per_second), strict[n])
        for n, (a, b) in ((n, pairs[n]) for n in strict)
    ]
    real = dict(zip(errors, holm(chances), strict=True))
    return [
        Significance(
            error=errors[n],
            significant=real[n],
            detectable=detectable_difference(strict[n], len(errors)),
        )
        if n in errors
        else None
        for n in range(len(pairs))
    ]


def pooled_error(pairs: Sequence[Pair]) -> StandardError | None:
    """How repeats scatter: one process's error, from all that were repeated; None if none was."""
    several = [
        (rate.error.degrees_of_freedom, rate.error.size**2 * rate.repeats)
        for pair in pairs
        for rate in pair
        if rate.error and rate.repeats > 1
    ]
    if not several:
        return None
    freedom = math.fsum(one for one, _ in several)
    return StandardError(
        size=math.sqrt(math.fsum(one * square for one, square in several) / freedom),
        degrees_of_freedom=freedom,
    )


def ratio_error(a: Rate, b: Rate, scatter: StandardError | None) -> StandardError | None:
    """The error of log(b / a), if processes scatter as `scatter` says or as these do, if more.

    The point's own excess counts as a second term, so that a point that scatters far more than
    the others has its own, few, degrees of freedom.
    """
    if a.error is None or b.error is None:
        return None
    own = standard_error_of_difference(a.error, b.error)
    if scatter is None:
        return own
    size = scatter.size * math.sqrt(1 / a.repeats + 1 / b.repeats)
    excess = math.sqrt(max(own.size**2 - size**2, 0))
    return error_of_sum(replace(scatter, size=size), replace(own, size=excess))


def _one_repeat_fewer(error: StandardError, a: Rate, b: Rate) -> StandardError:
    """The error if the run with fewer repeats, but two at least, had one repeat less.

    Two processes that are alike by chance then decide less: of rare disturbances that pooling
    takes for less than they are, two in one point are the most frequent.
    """
    counts = sorted((a.repeats, b.repeats))
    fewest = next((n for n, count in enumerate(counts) if count > 1), None)
    if fewest is None:
        return error
    fewer = [count - (n == fewest) for n, count in enumerate(counts)]
    factor = sum(1 / count for count in fewer) / sum(1 / count for count in counts)
    return replace(error, size=error.size * math.sqrt(factor))


def p_value(log_ratio: float, error: StandardError) -> float:
    """How often chance alone brings a difference as large (the p-value of Student's t)."""
    size = abs(log_ratio)
    if error.size == 0 or size < _ROUNDING:
        return float(size < _ROUNDING)
    return float(2 * stdtr(error.degrees_of_freedom, -size / error.size))


def holm(chances: Sequence[float]) -> list[bool]:
    """Which differences are real, so that the chance that any is not is 5 % at most (Holm 1979)."""
    real = [False] * len(chances)
    for place, n in enumerate(sorted(range(len(chances)), key=lambda n: chances[n])):
        if chances[n] > _CHANCE / (len(chances) - place):
            break
        real[n] = True
    return real


def detectable_difference(error: StandardError, points: int) -> float:
    """The relative difference found in 9 of 10 such comparisons, of so many points at once.

    In standard errors it is the noncentrality with which t is beyond the limit so often; the limit
    is that of the first of Holm's steps.
    """
    limit = float(stdtrit(error.degrees_of_freedom, 1 - _CHANCE / points / 2))
    errors = float(nctdtrinc(error.degrees_of_freedom, 1 - _POWER, limit))
    return math.expm1(min(errors * error.size, _MOST_ERRORS))


# Of the settings of points that are compared, those that make them others.
_SETTINGS = with_role(Role.IDENTITY, Role.SCALED, Role.SERVERS)
_settings = values_of(_SETTINGS)
# Windows of less say little of how fast a process is in the long run.
_BRIEF_SECONDS = 1.0
VERDICTS = ("regressed", "lost", "improved", "new", "undecided")

Key = Callable[[Trial], Hashable]
_MISSED = {
    True: "with the same settings; --across pairs points of the same network, mode and number of "
    "devices, and says in what they differ",
    False: "with the same network, mode and number of devices",
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """A point of run A (before) and the same of run B (after); None where a run has no such point.

    ratio      B over A; None unless both have a number
    verdict    improved, regressed or undecided; lost: A alone has a number; new: B alone has one
    why        what a reader must know of the verdict; empty where the ratio says it all
    detectable  the relative difference that 9 of 10 such comparisons would find; None: not known
    settings   in which settings the two differ, each as 'field (A / B)'
    """

    a: ScalingRow | None
    b: ScalingRow | None
    ratio: Ratio | None
    verdict: str
    why: str = ""
    detectable: float | None = None
    settings: tuple[str, ...] = ()

    @property
    def trial(self) -> Trial:
        """The point, as the run says it that has it; as A says it where both have."""
        return next(row.trial for row in (self.a, self.b) if row)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All points of two runs, those of both first, and in what else the runs differ.

    scatter     how one repeat's throughput scatters, from all points; None if none was repeated
    """

    a: Run
    b: Run
    changes: tuple[Change, ...]
    differences: tuple[Difference, ...]
    scatter: StandardError | None = None

    @property
    def forbidding(self) -> tuple[Difference, ...]:
        """What makes the runs no measure of each other."""
        return tuple(one for one in self.differences if one.matters)

    def having(self, verdict: str) -> list[Change]:
        """The points of that verdict."""
        return [one for one in self.changes if one.verdict == verdict]


def same_settings(trial: Trial) -> Hashable:
    """What has to be equal for points to be the same: every setting that decides a number."""
    return _settings(trial)


def same_size(trial: Trial) -> Hashable:
    """What has to be equal in points of unlike runs."""
    return trial.mode, trial.label, trial.layout.devices


def compare(a: Run, b: Run, key: Key = same_settings) -> Comparison:
    """B against A, point by point; points with the same `key` are the same.

    Repeats of all points are taken to scatter alike. Each interval is its point's own, at 95 %.
    Verdicts are made together, by Holm's procedure: under that model the chance that any of
    them is false is 5 % at most, however many points there are. Judged each by its own interval,
    27 points that have not changed would have one false verdict on average.

    Raises StoreError where no point is in both runs.
    """
    pairs = pair_rows(a.rows, b.rows, key)
    if not pairs:
        raise StoreError(f"no point of {a.name} is in {b.name} {_MISSED[key is same_settings]}")
    changes = _changes(pairs)
    in_both = {id(row) for pair in pairs for row in pair}
    changes += [_without(row, None) for row in a.rows if id(row) not in in_both]
    changes += [_without(None, row) for row in b.rows if id(row) not in in_both]
    return Comparison(
        a=a,
        b=b,
        changes=tuple(changes),
        differences=run_differences(a, b, pairs),
        scatter=pooled_error([rates for pair in pairs if (rates := _rates(*pair))]),
    )


def _changes(pairs: Pairs) -> list[Change]:
    measured = {n: rates for n, pair in enumerate(pairs) if (rates := _rates(*pair))}
    found = dict(zip(measured, significances([*measured.values()]), strict=True))
    return [
        _judged(*pair, *measured[n], found[n]) if n in measured else _without(*pair)
        for n, pair in enumerate(pairs)
    ]


def regressions(found: Comparison, share: float) -> list[Change]:
    """The points that regressed beyond doubt and, by the best estimate, by `share` or more.

    Points that lost their number count too: what no longer runs is the worst of regressions.
    """
    slower = [
        one for one in found.having("regressed") if one.ratio and one.ratio.value <= 1 - share
    ]
    return [*slower, *found.having("lost")]


def inconclusive_points(found: Comparison, share: float) -> list[Change]:
    """The undecided points of which a difference of `share` would not have been found for sure."""
    undecided = found.having("undecided")
    return [one for one in undecided if one.detectable is None or one.detectable > share]


def pair_rows(a: Sequence[ScalingRow], b: Sequence[ScalingRow], key: Key) -> Pairs:
    """Rows with the same key, each once, the most alike first; in the order of A."""
    places = grouped((key(row.trial), m) for m, row in enumerate(b))
    found = sorted(
        (
            len(differing_settings(one.trial, b[m].trial)),
            sorted((one.trial.key, b[m].trial.key)),
            n,
            m,
        )
        for n, one in enumerate(a)
        for m in places.get(key(one.trial), ())
    )
    partner: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, n, m in found:
        if n not in partner and m not in taken:
            partner[n] = m
            taken.add(m)
    return [(a[n], b[m]) for n, m in sorted(partner.items())]


def differing_settings(a: Trial, b: Trial) -> tuple[str, ...]:
    """In which settings two trials differ, each as 'field (A / B)'."""
    return tuple(
        f"{name} ({one} / {other})"
        for name, one, other in zip(_SETTINGS, _settings(a), _settings(b), strict=True)
        if one != other
    )


def _rates(a: ScalingRow, b: ScalingRow) -> Pair | None:
    return (a.rate, b.rate) if a.rate and b.rate else None


def _judged(
    a: ScalingRow, b: ScalingRow, before: Rate, after: Rate, judgement: Significance | None
) -> Change:
    """Of a point with two numbers; without a judgement, one says nothing of its spread."""
    value = after.images_per_second / before.images_per_second
    factor = math.exp(judgement.error.half_width) if judgement else None
    found = Ratio(value=value, low=factor and value / factor, high=factor and value * factor)
    verdict, why = "undecided", ""
    doubts = [*_doubts("A", a), *_doubts("B", b)]
    if judgement is None:
        single = [name for name, rate in (("A", before), ("B", after)) if not rate.error]
        why = f"a single figure in {' and '.join(single)}, whose spread is not known"
    elif judgement.significant and doubts:
        why = "; ".join(doubts)
    elif judgement.significant:
        verdict = "improved" if found.value > 1 else "regressed"
    elif found.low and found.high and not found.low <= 1 <= found.high:
        why = "its own interval leaves out no change, as chance has it in one of 20 points"
    return Change(
        a=a,
        b=b,
        ratio=found,
        verdict=verdict,
        why=why,
        detectable=judgement.detectable if judgement else None,
        settings=differing_settings(a.trial, b.trial),
    )


def _doubts(name: str, row: ScalingRow) -> Iterator[str]:
    """Why a side of a single process decides nothing; of several, their spread has that in it."""
    if row.rate and row.rate.repeats > 1:
        return
    seconds = sum(row.window_seconds)
    if seconds < _BRIEF_SECONDS:
        yield f"{name} was measured once, for {seconds:.2g} s; take more windows or repeats"
    if any(note.kind in INTERFERENCE for note in row.notes):
        yield f"others disturbed {name}, which was measured once; take more repeats"


def _without(a: ScalingRow | None, b: ScalingRow | None) -> Change:
    """Of a point without a number in one run or in both."""
    verdict = "lost" if a and a.rate else "new" if b and b.rate else "undecided"
    told = [
        f"{name}: {row.status}: {row.message}" if row else f"not in {name}"
        for name, row in (("A", a), ("B", b))
        if not (row and row.rate)
    ]
    return Change(a=a, b=b, ratio=None, verdict=verdict, why="; ".join(told))
