"""Noise of this machine: how much the duration of equal work differs on one core."""

import hashlib
import time
from collections.abc import Callable

NOISE_WINDOWS = 100
_WINDOW_SECONDS, _MOST_SECONDS = 0.1, 30.0
# Work that fits the first-level cache, in pieces that are short beside a window.
_BLOCK = bytes(16 << 10)
_CALIBRATION = 200


def window_seconds(
    windows: int = NOISE_WINDOWS, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the durations of up to `windows` windows of equal work, s.

    Each takes about 0.1 s on an idle core. A first window that is not returned calibrates the work.
    No window begins after 30 s.
    """
    rounds = max(1, round(_CALIBRATION * _WINDOW_SECONDS / _seconds(_CALIBRATION, clock)))
    found: list[float] = []
    began = clock()
    while len(found) < windows and clock() - began < _MOST_SECONDS:
        found.append(_seconds(rounds, clock))
    return found


def _seconds(rounds: int, clock: Callable[[], float]) -> float:
    began = clock()
    for _ in range(rounds):
        hashlib.blake2b(_BLOCK).digest()
    return max(clock() - began, 1e-9)
