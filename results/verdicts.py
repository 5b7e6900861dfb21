"""Verdicts: which of many differences between rates are beyond chance, and which could be seen.

The model: repeats of all points in both runs scatter alike, on the logarithmic scale, so their
variances are pooled; a point whose own repeats scatter more has that excess besides. With two or
three repeats a point's own scatter says too little: processes that fall into one of two modes are
often alike by chance, and each point would be judged by a variance that happens to be small.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import nctdtrinc, stdtr, stdtrit

from bench.statistics.confidence import CONFIDENCE, Error, error_of_sum
from results.rates import Rate, of_difference

_CHANCE, _POWER = 1 - CONFIDENCE, 0.9
# Scripted windows scatter by nothing: their rates differ by rounding.
_ROUNDING = 1e-9
# Beyond it a relative difference is no longer told, and far below it floats end.
_MOST_ERRORS = 100.0

Pair = tuple[Rate, Rate]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Of one point among others.

    error       of log(B / A)
    real        whether the difference is beyond chance, all points taken together
    visible     the relative difference that 9 of 10 such comparisons would find
    """

    error: Error
    real: bool
    visible: float


def judged(pairs: Sequence[Pair]) -> list[Judgement | None]:
    """Of each point, (A, B); None if either has a single figure, whose error is not known."""
    scatter = pooled(pairs)
    errors = {n: error for n, pair in enumerate(pairs) if (error := of_change(*pair, scatter))}
    strict = {n: _one_repeat_fewer(error, *pairs[n]) for n, error in errors.items()}
    chances = [chance(_log_ratio(*pairs[n]), error) for n, error in strict.items()]
    real = dict(zip(errors, beyond(chances), strict=True))
    return [
        Judgement(error=errors[n], real=real[n], visible=visible(strict[n], len(errors)))
        if n in errors
        else None
        for n in range(len(pairs))
    ]


def pooled(pairs: Sequence[Pair]) -> Error | None:
    """How repeats scatter: one process's error, from all that were repeated; None if none was."""
    several = [
        (rate.error.freedom, rate.error.size**2 * rate.repeats)
        for pair in pairs
        for rate in pair
        if rate.error and rate.repeats > 1
    ]
    if not several:
        return None
    freedom = math.fsum(one for one, _ in several)
    return Error(
        size=math.sqrt(math.fsum(one * square for one, square in several) / freedom),
        freedom=freedom,
    )


def of_change(a: Rate, b: Rate, scatter: Error | None) -> Error | None:
    """The error of log(b / a), if processes scatter as `scatter` says or as these do, if more.

    The point's own excess counts as a second term, so that a point that scatters far more than
    the others has its own, few, degrees of freedom.
    """
    if a.error is None or b.error is None:
        return None
    own = of_difference(a.error, b.error)
    if scatter is None:
        return own
    size = scatter.size * math.sqrt(1 / a.repeats + 1 / b.repeats)
    excess = math.sqrt(max(own.size**2 - size**2, 0))
    return error_of_sum(
        Error(size=size, freedom=scatter.freedom), Error(size=excess, freedom=own.freedom)
    )


def _one_repeat_fewer(error: Error, a: Rate, b: Rate) -> Error:
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
    return Error(size=error.size * math.sqrt(factor), freedom=error.freedom)


def _log_ratio(a: Rate, b: Rate) -> float:
    return math.log(b.images_per_second / a.images_per_second)


def chance(log_ratio: float, error: Error) -> float:
    """How often chance alone brings a difference as large (the p-value of Student's t)."""
    size = abs(log_ratio)
    if error.size == 0 or size < _ROUNDING:
        return float(size < _ROUNDING)
    return float(2 * stdtr(error.freedom, -size / error.size))


def beyond(chances: Sequence[float]) -> list[bool]:
    """Which differences are real, so that the chance that any is not is 5 % at most (Holm 1979)."""
    real = [False] * len(chances)
    for place, n in enumerate(sorted(range(len(chances)), key=lambda n: chances[n])):
        if chances[n] > _CHANCE / (len(chances) - place):
            break
        real[n] = True
    return real


def visible(error: Error, points: int) -> float:
    """The relative difference found in 9 of 10 such comparisons, of so many points at once.

    In standard errors it is the noncentrality with which t is beyond the limit so often; the limit
    is that of the first of Holm's steps.
    """
    limit = float(stdtrit(error.freedom, 1 - _CHANCE / points / 2))
    errors = float(nctdtrinc(error.freedom, 1 - _POWER, limit))
    return math.expm1(min(errors * error.size, _MOST_ERRORS))
