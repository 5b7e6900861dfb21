"""The precision of the windows so far, which decides whether they are enough."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.statistics.budget import LEAST_WINDOWS
from bench.statistics.confidence import (
    Numbers,
    correlation,
    error_of_mean,
    independent,
    inflation,
    student,
)
from bench.statistics.steady_state import drift, find_steady_state

PRECISION = 0.02
_LEAST_KNOWN = 6
_PILOT = 3
# The variance is pooled with a prior equal to the precision, worth this many windows: three windows
# can be equal at random.
_KNOWN_WINDOWS = 2
# The largest half-width of all windows, as a multiple of the precision.
_MOST_MISSED = 2.0
# The confidence of a drift that prevents stopping.
_LIKELY = 0.8


def relative_half_width(seconds: Sequence[float] | Numbers, warmup: int = 0) -> float:
    """Return the relative 95 % CI half-width of the mean steady window.

    It is a fraction of the mean, and infinite with fewer than six steady windows or without a
    steady state.
    """
    found = find_steady_state(seconds, warmup)
    counted = np.asarray(seconds[found.dropped :], dtype=float)
    error = error_of_mean(counted)
    if error is None or len(counted) < _LEAST_KNOWN or not found.converged:
        return math.inf
    return error.half_width / float(counted.mean())


def is_precise_enough(
    seconds: Sequence[float] | Numbers, precision: float = PRECISION, warmup: int = 0
) -> bool:
    """Return whether the windows reach the relative `precision` (95 % CI half-width).

    The variance of a pilot, the first third of the counted windows, decides how many are enough. If
    all windows decided, measuring would stop on windows that are randomly equal, which in
    right-skewed data are the fast ones. All windows prevent stopping in three cases: their own
    half-width exceeds twice the precision, their level is not confirmed, or they seem to drift by
    more than the precision. A likely drift is enough; more windows will settle it.
    """
    if relative_half_width(seconds, warmup) > _MOST_MISSED * precision:
        return False
    counted = np.asarray(seconds[find_steady_state(seconds, warmup).dropped :], dtype=float)
    if len(counted) < LEAST_WINDOWS or _predicted_half_width(counted, precision) > precision:
        return False
    return abs(drift(counted, _LIKELY)) <= precision


def _predicted_half_width(counted: Numbers, precision: float) -> float:
    """Return the relative 95 % CI half-width that the pilot predicts for all windows.

    The slowest window of the pilot is replaced by the second slowest: among so few, one slowed by
    another program would dominate the variance. All windows estimate the autocorrelation.
    """
    about = counted - counted.mean()
    squares = float(about @ about)
    if squares == 0:
        return 0.0
    rho = correlation(float(about[1:] @ about[:-1]) / squares, len(counted))
    pilot = np.sort(counted[: -(-len(counted) // _PILOT)])
    pilot[-1] = pilot[-2]
    scatter = pilot / pilot.mean() - 1
    own = len(pilot) - 1
    square = float(scatter @ scatter) / max(len(pilot) - float(inflation(rho, len(pilot))), 1)
    freedom = own + _KNOWN_WINDOWS
    pooled = (own * square + _KNOWN_WINDOWS * precision**2) / freedom
    return student(freedom) * math.sqrt(pooled / independent(rho, len(counted)))


def per_image_seconds(windows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the seconds of each window, scaled to the mean number of images."""
    mean = sum(one["images"] for one in windows) / len(windows)
    return [one["seconds"] / one["images"] * mean for one in windows]
