"""Comparison of two runs point by point, with tests corrected for many points."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.errors import error_line
from bench.statistics.confidence import (
    CONFIDENCE,
    StandardError,
    error_of_sum,
    standard_error_of_difference,
)
from bench.trial import Trial
from results.comparison.differences import Difference, run_differences
from results.comparison.pairs import (
    Key,
    Pairs,
    SettingChange,
    change_of,
    pair_changed,
    pair_rows,
    same_settings,
    same_size,
    setting_changes,
)
from results.errors import StoreError
from results.quality import own_doubts
from results.rates import Rate, Ratio
from results.run import Run
from results.scaling import ScalingRow

_CHANCE, _POWER = 1 - CONFIDENCE, 0.9
# Windows of the simulated engine have no variance: their throughputs differ by rounding only.
_ROUNDING = 1e-9
# Keeps exp() of an enormous detectable difference finite.
_MOST_ERRORS = 100.0

Pair = tuple[Rate, Rate]


@dataclass(frozen=True, kw_only=True)
class Significance:
    """Test result of one point, corrected for the number of points.

    error        standard error of log(B / A)
    significant  whether the difference is significant after the correction
    detectable   minimum detectable effect at 90 % power, relative
    """

    error: StandardError
    significant: bool
    detectable: float


def significances(pairs: Sequence[Pair]) -> list[Significance | None]:
    """Test each point (A, B); None if either has no standard error."""
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
    """Pool the run-to-run standard error of all repeated points; None without any."""
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
    """Return the standard error of log(b / a), pooled or the point's own if larger.

    scatter: pooled run-to-run error. The point's excess variance is a second term, so a point
    that varies far more than the others has its own, few, degrees of freedom.
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
    """Return the error as if the side with fewer repeats (2 or more) had one fewer.

    Pooling underestimates rare interference. Its most frequent harm is two repeats of one point
    that agree by accident; this margin limits their weight.
    """
    counts = sorted((a.repeats, b.repeats))
    fewest = next((n for n, count in enumerate(counts) if count > 1), None)
    if fewest is None:
        return error
    fewer = [count - (n == fewest) for n, count in enumerate(counts)]
    factor = sum(1 / count for count in fewer) / sum(1 / count for count in counts)
    return replace(error, size=error.size * math.sqrt(factor))


def p_value(log_ratio: float, error: StandardError) -> float:
    """Return the two-sided p-value of Student's t."""
    from scipy.special import stdtr  # noqa: PLC0415 - takes long to load; most reports need none

    size = abs(log_ratio)
    if error.size == 0 or size < _ROUNDING:
        return float(size < _ROUNDING)
    return float(2 * stdtr(error.degrees_of_freedom, -size / error.size))


def holm(chances: Sequence[float]) -> list[bool]:
    """Return which p-values are significant, at most 5 % falsely (Holm 1979)."""
    real = [False] * len(chances)
    for place, n in enumerate(sorted(range(len(chances)), key=lambda n: chances[n])):
        if chances[n] > _CHANCE / (len(chances) - place):
            break
        real[n] = True
    return real


def detectable_difference(error: StandardError, points: int) -> float:
    """Return the relative MDE at 90 % power, among `points` points.

    In standard errors, it is the noncentrality at which t exceeds its limit with that
    probability. The limit is that of Holm's first step.
    """
    from scipy.special import nctdtrinc, stdtrit  # noqa: PLC0415 - as above

    limit = float(stdtrit(error.degrees_of_freedom, 1 - _CHANCE / points / 2))
    errors = float(nctdtrinc(error.degrees_of_freedom, 1 - _POWER, limit))
    return math.expm1(min(errors * error.size, _MOST_ERRORS))


# A shorter measurement is no reliable estimate of long-run throughput.
_BRIEF_SECONDS = 1.0
VERDICTS = ("regressed", "lost", "improved", "new", "doubtful", "undecided")

_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Change:
    """A point in run A (before) and run B (after); None if a run does not have it.

    ratio       B / A; None unless both have a result
    verdict     improved, regressed, doubtful (significant, but a side is of that quality),
                undecided (inconclusive), lost (no result in B), or new (no result in A)
    why         reason for the verdict; empty if the ratio is enough
    detectable  minimum detectable effect at 90 % power, relative; None if unknown
    settings    chosen settings that differ
    """

    a: ScalingRow | None
    b: ScalingRow | None
    ratio: Ratio | None
    verdict: str
    why: str = ""
    detectable: float | None = None
    settings: tuple[SettingChange, ...] = ()

    @property
    def trial(self) -> Trial:
        """The trial in A, or in B if A does not have the point."""
        return next(row.trial for row in (self.a, self.b) if row)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All points of two runs, shared ones first, and the runs' other differences.

    subject     the one setting that differs in every pair; None if points have equal settings
    scatter     pooled run-to-run error of one repeat; None if no point was repeated
    """

    a: Run
    b: Run
    changes: tuple[Change, ...]
    differences: tuple[Difference, ...]
    subject: SettingChange | None = None
    scatter: StandardError | None = None

    @property
    def forbidding(self) -> tuple[Difference, ...]:
        """The differences that make the runs not comparable."""
        return tuple(one for one in self.differences if one.matters)

    def having(self, verdict: str) -> list[Change]:
        """The points of that verdict."""
        return [one for one in self.changes if one.verdict == verdict]


def compare(a: Run, b: Run, key: Key = same_settings, across: str = "") -> Comparison:
    """Compare B with A point by point; points with the same `key` are paired.

    If no point has equal settings in both runs, points that differ in one setting are paired, if
    every pair has the same change.

    The model: repeats of all points have one run-to-run variance. Each point has its own 95 % CI.
    Verdicts are corrected together by Holm's procedure: under the model, the probability of any
    false verdict is at most 5 %, for any number of points. Without the correction, 27 unchanged
    points would give one false verdict on average.

    Raises StoreError if no point is in both runs. `across` is the command that its text names.
    """
    pairs = pair_rows(a.rows, b.rows, key)
    changed = [] if pairs or key is not same_settings else pair_changed(a.rows, b.rows)
    if not pairs and not changed:
        raise _no_pairs(a, b, key, across)
    pairs = pairs or changed
    changes = _changes(pairs)
    in_both = {id(row) for pair in pairs for row in pair}
    changes += [_without(row, None) for row in a.rows if id(row) not in in_both]
    changes += [_without(None, row) for row in b.rows if id(row) not in in_both]
    return Comparison(
        a=a,
        b=b,
        changes=tuple(changes),
        differences=run_differences(a, b, pairs),
        subject=change_of(pairs) if changed else None,
        scatter=pooled_error([rates for pair in pairs if (rates := _rates(*pair))]),
    )


def _no_pairs(a: Run, b: Run, key: Key, across: str) -> StoreError:
    """Return the refusal with the differences of the most similar points."""
    where = f"{a.name}, {b.name}"
    pairs = pair_rows(a.rows, b.rows, same_size)
    if not pairs:
        wanted = "a point with the same network, mode and number of devices in both runs"
        fix = "Compare runs of the same network and number of devices"
        return StoreError(error_line(where, expected=wanted, got="none", fix=fix))
    found = [(setting_changes(one.trial, other.trial), one.trial.name) for one, other in pairs]
    fewest = min(len(changes) for changes, _ in found)
    texts = {_listed(changes): name for changes, name in found if len(changes) == fewest}
    shown = [f"{text} in {name}" for text, name in texts.items()]
    fix = f"Compare anyway with '{across}'" if across else "Use --across to compare anyway"
    return StoreError(
        error_line(
            where,
            expected="a point with the same settings in both runs, or the same change of one "
            "setting in every point",
            got=_and(shown),
            fix=fix,
        )
    )


def _listed(changes: Sequence[SettingChange]) -> str:
    return _and(list(map(str, changes)))


def _and(texts: Sequence[str]) -> str:
    """Return 'a, b and c', or the first texts and the number of the others."""
    more = [f"{len(texts) - _MOST_NAMED} more"] if len(texts) > _MOST_NAMED else []
    *first, last = [*texts[:_MOST_NAMED], *more]
    return f"{', '.join(first)} and {last}" if first else last


def _changes(pairs: Pairs) -> list[Change]:
    measured = {n: rates for n, pair in enumerate(pairs) if (rates := _rates(*pair))}
    found = dict(zip(measured, significances([*measured.values()]), strict=True))
    points = sum(one is not None for one in found.values())
    return [
        _judged(pair, measured[n], found[n], points) if n in measured else _without(*pair)
        for n, pair in enumerate(pairs)
    ]


def regressions(found: Comparison, share: float) -> list[Change]:
    """Return the points that regressed significantly, by `share` or more.

    Points without a result in B count as regressions; doubtful ones do not.
    """
    slower = [
        one for one in found.having("regressed") if one.ratio and one.ratio.value <= 1 - share
    ]
    return [*slower, *found.having("lost")]


def inconclusive_points(found: Comparison, share: float) -> list[Change]:
    """Return the inconclusive points whose minimum detectable effect exceeds `share`."""
    undecided = found.having("undecided")
    return [one for one in undecided if one.detectable is None or one.detectable > share]


def _rates(a: ScalingRow, b: ScalingRow) -> Pair | None:
    return (a.rate, b.rate) if a.rate and b.rate else None


def _judged(
    pair: tuple[ScalingRow, ScalingRow], rates: Pair, judgement: Significance | None, points: int
) -> Change:
    """Return the change of a point with two results; judgement None: a single figure."""
    (a, b), (before, after) = pair, rates
    value = after.images_per_second / before.images_per_second
    factor = math.exp(judgement.error.half_width) if judgement else None
    found = Ratio(value=value, low=factor and value / factor, high=factor and value * factor)
    verdict, why = "undecided", ""
    caveats = [*_caveats("A", a), *_caveats("B", b)]
    if judgement is None:
        single = [name for name, rate in (("A", before), ("B", after)) if not rate.error]
        why = f"single figure in {' and '.join(single)}: variance unknown"
    elif judgement.significant and any(own_doubts(row.quality_notes) for row in pair):
        verdict = "doubtful"
    elif judgement.significant and caveats:
        why = "; ".join(caveats)
    elif judgement.significant:
        verdict = "improved" if found.value > 1 else "regressed"
    elif found.low and found.high and not found.low <= 1 <= found.high:
        why = f"significant alone, but not after correcting for {points} comparisons"
    return Change(
        a=a,
        b=b,
        ratio=found,
        verdict=verdict,
        why=why,
        detectable=judgement.detectable if judgement else None,
        settings=setting_changes(a.trial, b.trial),
    )


def _caveats(name: str, row: ScalingRow) -> Iterator[str]:
    """Yield why a side with n = 1 is inconclusive."""
    if row.rate and row.rate.repeats > 1:
        return
    seconds = sum(row.window_seconds)
    if seconds < _BRIEF_SECONDS:
        yield f"{name}: n = 1, measured for {seconds:.2g} s; run more windows or repeats"


def _without(a: ScalingRow | None, b: ScalingRow | None) -> Change:
    """Return the change of a point without a result in one run or both."""
    verdict = "lost" if a and a.rate else "new" if b and b.rate else "undecided"
    reasons = [
        f"{name}: {row.status}: {row.message}" if row else f"not in {name}"
        for name, row in (("A", a), ("B", b))
        if not (row and row.rate)
    ]
    return Change(a=a, b=b, ratio=None, verdict=verdict, why="; ".join(reasons))
