"""Standard errors and intervals of means of autocorrelated series (NumPy only)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

CONFIDENCE = 0.95
# Beyond this the few windows of a measurement cannot tell a correlation from a drift.
_MOST_CORRELATION = 0.9
# Below this Student's t makes intervals that hold everything, and no more often the truth.
_LEAST_ALIKE = 3


@dataclass(frozen=True, kw_only=True)
class StandardError:
    """The standard error of a mean, in the mean's unit, and its degrees of freedom (1 or more)."""

    size: float
    degrees_of_freedom: float

    @property
    def half_width(self) -> float:
        """Half of the 95 % interval."""
        return student(self.degrees_of_freedom) * self.size


@lru_cache(maxsize=4096)
def student(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t, right to 0.2 % at 95 % for 1 degree of freedom or more.

    With t = sqrt(freedom) tan(a), the density of a is cos(a) ** (freedom - 1), which is summed.
    """
    last = min(math.pi / 2, 12 / math.sqrt(freedom))
    angles = np.linspace(0, last, 2049)
    density = np.maximum(np.cos(angles), 0) ** (freedom - 1)
    area = np.concatenate(([0.0], np.cumsum(density[1:] + density[:-1])))
    angle = float(np.interp(confidence * area[-1], area, angles))
    return math.sqrt(freedom) * math.tan(angle)


def error_of_sum(*errors: StandardError) -> StandardError:
    """The error of a sum of independent terms, with Satterthwaite's (1946) degrees of freedom."""
    squares = [one.size**2 for one in errors]
    if not any(squares):
        return StandardError(
            size=0.0, degrees_of_freedom=sum(one.degrees_of_freedom for one in errors)
        )
    parts = sum(
        square**2 / one.degrees_of_freedom for square, one in zip(squares, errors, strict=True)
    )
    return StandardError(size=math.sqrt(sum(squares)), degrees_of_freedom=sum(squares) ** 2 / parts)


def standard_error_of_difference(one: StandardError, other: StandardError) -> StandardError:
    """The error of a difference of independent means.

    Its freedom is Satterthwaite's (1946), with one degree more on each side and one less at the
    end: halfway to the form whose squares of variances are unbiased (two more, two less). With
    three repeats the plain form is too wide and the unbiased one too narrow; docs/measuring.md.
    """
    squares = one.size**2, other.size**2
    if sum(squares) == 0:
        return StandardError(
            size=0.0, degrees_of_freedom=one.degrees_of_freedom + other.degrees_of_freedom
        )
    parts = squares[0] ** 2 / (one.degrees_of_freedom + 1) + squares[1] ** 2 / (
        other.degrees_of_freedom + 1
    )
    return StandardError(
        size=math.sqrt(sum(squares)), degrees_of_freedom=sum(squares) ** 2 / parts - 1
    )


def correlation(lag_one: Any, count: Any) -> Any:
    """First-order autocorrelation of what the series was drawn from, between 0 and 0.9.

    lag_one is the sample's, about its own mean, which is too small by (1 + 4 rho) / count
    (Marriott and Pope 1954); negative ones are taken for 0, so that no interval gains by them.
    """
    return np.clip((count * lag_one + 1) / np.maximum(count - 4, 2), 0, _MOST_CORRELATION)


def inflation(rho: Any, count: Any) -> Any:
    """By what the variance of a mean of `count` AR(1) values exceeds that of independent ones."""
    tail = rho * (1 - rho**count) / (count * (1 - rho))
    return 1 + 2 * rho / (1 - rho) - 2 * tail / (1 - rho)


def independent(rho: float, count: int) -> float:
    """How many independent values say as much of a mean as `count` of an AR(1); at least 3."""
    return max(count / float(inflation(rho, count)), min(count, _LEAST_ALIKE))


def error_of_mean(values: Sequence[float] | Numbers, caution: float = 0.0) -> StandardError | None:
    """The error of the mean of a stationary series; None for fewer than two values.

    The series is taken for an AR(1): `count` values say as much as count / inflation independent
    ones (Bayley and Hammersley 1946), never fewer than 3, less one degree of freedom. `caution` is
    by how many of its standard errors, 1 / sqrt(count), the correlation may be larger than found.
    """
    series = np.asarray(values, dtype=float)
    count = len(series)
    if count < 2:
        return None
    about = series - series.mean()
    squares = float(about @ about)
    if squares == 0:
        return StandardError(size=0.0, degrees_of_freedom=count - 1)
    found = correlation(float(about[1:] @ about[:-1]) / squares, count)
    rho = min(float(found) + caution / math.sqrt(count), _MOST_CORRELATION)
    alike = independent(rho, count)
    return StandardError(
        size=math.sqrt(squares / count / (alike - 1)), degrees_of_freedom=alike - 1
    )
