"""The stopping rule: whether the windows so far are enough. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

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
# Windows that count, before measuring may end; a third of them is the pilot.
LEAST_WINDOWS = 9
_LEAST_KNOWN = 6
_PILOT = 3
# Scatter as large as the precision is taken for known, as if from so many windows besides: of
# three windows, some are alike by chance.
_KNOWN_WINDOWS = 2
# Of the precision: what the interval of all windows must keep within.
_MOST_MISSED = 2.0
_STEP, _GROWTH = 3, 1.1
# Of a drift that keeps a process from stopping.
_LIKELY = 0.8


def relative_half_width(seconds: Sequence[float] | Numbers, warmup: int = 0) -> float:
    """Half width of the 95 % interval of the mean steady window, as a part of it.

    Infinite where it cannot be said: fewer than six steady windows, or no steady state yet.
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
    """Whether so many windows promise the throughput to within `precision` (relative, at 95 %).

    The scatter of a pilot, the first third of the windows that count, decides how many are enough.
    If all of them decided, measuring would end on windows that are alike by chance, and of
    right-skewed windows those are the fast ones. What all of them say keeps it from ending in three
    cases: their own interval is beyond twice the precision, their level is not confirmed, or they
    seem to drift by more than the precision. Such a drift need not be certain: more windows will
    tell it from chance.
    """
    if relative_half_width(seconds, warmup) > _MOST_MISSED * precision:
        return False
    counted = np.asarray(seconds[find_steady_state(seconds, warmup).dropped :], dtype=float)
    if len(counted) < LEAST_WINDOWS or _predicted_half_width(counted, precision) > precision:
        return False
    return abs(drift(counted, _LIKELY)) <= precision


def _predicted_half_width(counted: Numbers, precision: float) -> float:
    """Half width of the 95 % interval that the pilot promises for all, as a part of the mean.

    The slowest window of the pilot counts as the next slowest: of so few, one that another program
    slowed would pass for the scatter of all. How much windows depend on the one before is
    estimated from all of them.
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
    """Seconds of each window if all had as many images as they have on average."""
    mean = sum(one["images"] for one in windows) / len(windows)
    return [one["seconds"] / one["images"] * mean for one in windows]


@lru_cache
def is_checkpoint(count: int) -> bool:
    """Whether it is asked after `count` windows since the least warm-up: 9, 12, 15 ... 33, 37 ...

    Each look is at one window of the pilot more, or at 1.1 times the windows of the last.
    """
    look = LEAST_WINDOWS
    while look < count:
        look = max(look + _STEP, math.ceil(look * _GROWTH))
    return look == count


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How well and at most how long a point is measured; warm-up counts in neither limit.

    precision of 0 is never reached: all `windows` are measured. seconds of 0 are no limit.
    """

    precision: float
    windows: int
    seconds: float = 0.0


def end_reason(seconds: Sequence[float], budget: Budget, warmup: int = 0) -> str:
    """What ends the measuring after these windows: "windows", "seconds", "precision"; '' nothing.

    Precision is asked at checkpoints alone (`is_checkpoint`), and comes first.
    """
    counted = seconds[warmup:]
    asked = budget.precision > 0 and is_checkpoint(len(counted))
    if asked and is_precise_enough(seconds, budget.precision, warmup):
        return "precision"
    if len(counted) >= budget.windows:
        return "windows"
    spent = 0 < budget.seconds <= math.fsum(counted)
    return "seconds" if spent else ""
