"""When the windows measured so far are enough: pure rules that a worker asks between windows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bench.interval import Numbers, error_of_mean
from bench.steady import drift, steady

PRECISION = 0.02
LEAST_WINDOWS = 6
_GROWTH = 1.1
# Of a drift that keeps a process from stopping.
_LIKELY = 0.8


def precision_of(seconds: Sequence[float] | Numbers, warmup: int = 0) -> float:
    """Half width of the 95 % interval of the mean steady window, as a part of it.

    Infinite where it cannot be said: fewer than six steady windows, or no steady state yet.
    """
    found = steady(seconds, warmup)
    counted = np.asarray(seconds[found.dropped :], dtype=float)
    error = error_of_mean(counted)
    if error is None or len(counted) < LEAST_WINDOWS or not found.settled:
        return math.inf
    return error.half_width / float(counted.mean())


def good_enough(
    seconds: Sequence[float] | Numbers, precision: float = PRECISION, warmup: int = 0
) -> bool:
    """Whether the rate is known to within `precision` (relative, at 95 %), and seems not to move.

    A drift beyond `precision` need not be certain: more windows will tell it from chance.
    """
    if precision_of(seconds, warmup) > precision:
        return False
    return abs(drift(seconds[steady(seconds, warmup).dropped :], _LIKELY)) <= precision


def alike(windows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Seconds of each window if all had as many images as they have on average."""
    mean = sum(one["images"] for one in windows) / len(windows)
    return [one["seconds"] / one["images"] * mean for one in windows]


@lru_cache
def looks_at(count: int) -> bool:
    """Whether it is asked after `count` windows since the least warm-up: 6 to 11, 13, 15, 17 ...

    Each look is at 1.1 times the windows of the last, for every look is another chance to stop on
    windows that happen to be alike.
    """
    look = LEAST_WINDOWS
    while look < count:
        look = math.ceil(look * _GROWTH)
    return look == count


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How well and at most how long a point is measured; warm-up counts in neither limit.

    precision of 0 is never reached: all `windows` are measured. seconds of 0 are no limit.
    """

    precision: float
    windows: int
    seconds: float = 0.0


def ending(seconds: Sequence[float], budget: Budget, warmup: int = 0) -> str:
    """What ends the measuring after these windows: "windows", "seconds", "precision"; '' nothing.

    Precision is asked after the looks of `looks_at` alone, and comes first.
    """
    counted = seconds[warmup:]
    asked = budget.precision > 0 and looks_at(len(counted))
    if asked and good_enough(seconds, budget.precision, warmup):
        return "precision"
    if len(counted) >= budget.windows:
        return "windows"
    spent = 0 < budget.seconds <= math.fsum(counted)
    return "seconds" if spent else ""
