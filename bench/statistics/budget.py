"""The rule that ends measuring, without NumPy: precision, windows, seconds."""

from __future__ import annotations

import math
from collections import namedtuple

TYPE_CHECKING = False  # simulated processes load no typing
if TYPE_CHECKING:
    from collections.abc import Sequence

# Counted windows before measuring may end; a third of them is the pilot of the precision.
LEAST_WINDOWS = 9
_STEP, _GROWTH = 3, 1.1


def is_checkpoint(count: int) -> bool:
    """Return whether the rule is evaluated after `count` windows.

    It is evaluated after 9, 12, 15 ... 33, 37 ... windows. Each evaluation adds one window to the
    pilot, or has 1.1 times the windows of the last one.
    """
    look = LEAST_WINDOWS
    while look < count:
        look = max(look + _STEP, math.ceil(look * _GROWTH))
    return look == count


class Budget(namedtuple("Budget", ("precision", "windows", "seconds"), defaults=(0.0,))):
    """The precision and the limits of measuring a point, without warm-up.

    precision 0: run all `windows`; seconds 0: no time limit.
    """

    __slots__ = ()


def end_reason(seconds: Sequence[float], budget: Budget, warmup: int = 0) -> str:
    """Return why measuring ends: "windows", "seconds" or "precision"; '' to continue.

    Precision is evaluated first, and only at checkpoints (`is_checkpoint`).
    """
    counted = seconds[warmup:]
    asked = budget.precision > 0 and is_checkpoint(len(counted))
    if asked and _are_precise(seconds, budget.precision, warmup):
        return "precision"
    if len(counted) >= budget.windows:
        return "windows"
    spent = 0 < budget.seconds <= math.fsum(counted)
    return "seconds" if spent else ""


def _are_precise(seconds: Sequence[float], precision: float, warmup: int) -> bool:
    if len(set(seconds[warmup:])) == 1:  # as in most simulations; their processes need no NumPy
        return True
    from bench.statistics.stopping_rule import is_precise_enough  # noqa: PLC0415

    return is_precise_enough(seconds, precision, warmup)
