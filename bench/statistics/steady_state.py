"""Steady-state detection: excluded windows at the front, and drift."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.statistics.confidence import Numbers, correlation, inflation, student

# Fewer windows cannot prove a steady state.
_LEAST_LEFT = 3
_LEAST_LEFT_LATE = 6
_MOST_BATCHES = 200
_CONFIDENCE = 1 - 1e-3
_LATE_CONFIDENCE = 1 - 1e-5
_LEAST_STEP = 0.01
# In a dozen windows, a higher correlation would hide a slow start.
_MOST_CORRELATION = 0.3
# A start this short is accepted, however few windows follow it.
_SHORT_START = 2


@dataclass(frozen=True, kw_only=True)
class SteadyState:
    """The steady part of a series.

    dropped     excluded windows at the front
    converged   False if more than a third of the windows, and more than 2, are at another level:
                too few follow to confirm their level
    """

    dropped: int
    converged: bool = True


def find_steady_state(seconds: Sequence[float] | Numbers, warmup: int = 0) -> SteadyState:
    """Find the excluded windows at the front: `warmup` and those of a slow start.

    The cut is MSER's (White 1997: least squared standard error of the mean of the rest) among cuts
    whose front differs significantly from the rest. The test is Student's t, allowing for AR(1), of
    both the mean and the median of the front, so that a single slow window does not count as a slow
    start. Long series are batched (MSER-m; White, Cobb and Spratt 2000).
    """
    series = np.asarray(seconds[warmup:], dtype=float)
    size = max(1, -(-len(series) // _MOST_BATCHES))
    whole = len(series) // size * size
    batches = series[:whole].reshape(-1, size).mean(axis=1)
    cut = _cut(batches)
    return SteadyState(
        dropped=min(warmup, len(seconds)) + cut * size,
        converged=cut * size <= _SHORT_START or _is_confirmed(batches, cut),
    )


def _is_confirmed(series: Numbers, cut: int) -> bool:
    """Return whether the windows after the first third are at the level after the cut.

    The cut is an estimate, so windows at that level may precede it.
    """
    third = len(series) // 3
    if cut <= third:
        return True
    before, rest = series[third:cut], series[cut:]
    chance = 3 * float(rest.std()) / math.sqrt(len(before))
    level = float(rest.mean())
    return abs(float(before.mean()) - level) <= max(chance, _LEAST_STEP * level)


def _cut(series: Numbers) -> int:
    """Return the number of windows before the steady state."""
    count = len(series)
    if count <= _LEAST_LEFT:
        return 0
    cuts = np.arange(count - _LEAST_LEFT + 1)
    left = count - cuts
    mean = _tails(series)[cuts] / left
    squares = np.maximum(_tails(series**2)[cuts] - left * mean**2, 0)
    squares[squares < 1e-12 * left * mean**2] = 0  # rounding errors of equal windows
    score = squares / left**2
    front = np.concatenate((series[:1], np.cumsum(series)[cuts[1:] - 1] / cuts[1:]))
    step = front - mean
    noise, weight = _noise(series, cuts, mean, squares)
    likely = (score < score[0]) & (np.abs(step) > 3 * noise * weight)
    likely &= np.abs(step) > _LEAST_STEP * mean
    for cut in sorted(np.flatnonzero(likely), key=lambda one: (score[one], one)):
        away = math.copysign(1.0, step[cut]) * (series[:cut] - mean[cut])
        needed = weight[cut] * _chance_limit(
            away, int(left[cut]), float(noise[cut]), slow=step[cut] > 0
        )
        middle = np.sort(away)[(cut - 1) // 2]
        if min(abs(step[cut]), middle) > needed and away[-1] > noise[cut]:
            return int(cut)
    return 0


def _chance_limit(away: Numbers, left: int, noise: float, *, slow: bool) -> float:
    """Return the largest random difference of the front, for a weight of 1.

    Jobs usually start slowly. If the front is faster, more windows must remain to confirm it.
    """
    if left < (_LEAST_LEFT if slow else _LEAST_LEFT_LATE):
        return math.inf
    if len(away) <= left:
        return student(left - 1, _CONFIDENCE) * noise
    if left < _LEAST_LEFT_LATE:
        return math.inf
    before = float(away.std())
    freedom = (left if noise >= before else len(away)) - 1
    return student(freedom, _LATE_CONFIDENCE) * max(noise, before)


def _tails(values: Numbers) -> Numbers:
    """Return the sums from each value to the last."""
    return np.cumsum(values[::-1])[::-1]


def _noise(
    series: Numbers, cuts: NDArray[np.integer[Any]], mean: Numbers, squares: Numbers
) -> tuple[Numbers, Numbers]:
    """Return the noise of the rest and the standard error of front minus rest, by cut."""
    left = len(series) - cuts
    products = _tails(np.append(series[1:] * series[:-1], 0.0))[cuts]
    ends = series[cuts] + series[-1]
    lag = products - mean * (2 * mean * left - ends) + (left - 1) * mean**2
    sample = np.divide(lag, squares, out=np.zeros(len(cuts)), where=squares > 0)
    rho = np.minimum(correlation(sample, left), _MOST_CORRELATION)
    grown = inflation(rho, left)
    single = squares / np.maximum(left - grown, 1)
    before = np.maximum(cuts, 1)
    return np.sqrt(single), np.sqrt(inflation(rho, before) / before + grown / left)


def drift(values: Sequence[float] | Numbers, sure: float = _CONFIDENCE) -> float:
    """Return a linear fit's change as a fraction of the mean; 0 if not significant.

    The test is Student's t of the slope at confidence `sure`, with AR(1) errors about a parabola:
    about a line, the curvature of a drift would count as noise.
    """
    series = np.asarray(values, dtype=float)
    count = len(series)
    if count < _LEAST_LEFT_LATE:
        return 0.0
    places = np.arange(count) - (count - 1) / 2
    slope = float(places @ series) / float(places @ places)
    bend = places**2 - float(places @ places) / count
    bent = bend * float(bend @ series) / float(bend @ bend)
    rest = series - series.mean() - slope * places - bent
    squares = float(rest @ rest)
    rho = correlation(float(rest[1:] @ rest[:-1]) / squares, count) if squares > 0 else 0.0
    grown = float(inflation(rho, count))
    error = math.sqrt(squares / max(count - 3 * grown, 1) * grown / float(places @ places))
    needed = student(max(int(count / grown) - 3, 1), sure) * error
    return slope * (count - 1) / float(series.mean()) if abs(slope) > needed else 0.0
