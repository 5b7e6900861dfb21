"""Verdicts: which of many differences between rates are beyond chance, and which could be seen."""

import math
from collections.abc import Sequence

from scipy.special import nctdtrinc, stdtr, stdtrit

from bench.interval import CONFIDENCE, Error
from results.ab import ASSUMED_NOISE
from results.rates import Rate, of_difference

_CHANCE, _POWER = 1 - CONFIDENCE, 0.9
# Scripted windows scatter by nothing: their rates differ by rounding.
_ROUNDING = 1e-9
# Beyond it a relative difference is no longer told, and far below it floats end.
_MOST_ERRORS = 100.0
# Degrees of freedom with which Student's t is normal.
_ALL = 1e6


def of_ratio(point: Rate, base: Rate) -> Error | None:
    """The error of log(point / base), their processes being independent; None where unknown.

    The windows of a single process do not tell how processes differ, and the same code measured
    twice would seem to have changed: where a rate is of one process, it is taken to be off by as
    much as processes on quiet machines are (`results.ab.ASSUMED_NOISE`) besides.
    """
    one, other = _of_processes(point), _of_processes(base)
    return of_difference(one, other) if one and other else None


def _of_processes(rate: Rate) -> Error | None:
    error = rate.error
    if error is None or rate.repeats > 1:
        return error
    square = error.size**2 + ASSUMED_NOISE**2
    # What is assumed is taken for known (Satterthwaite 1946).
    freedom = min(error.freedom * (square / error.size**2) ** 2, _ALL) if error.size else _ALL
    return Error(size=math.sqrt(square), freedom=freedom)


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
