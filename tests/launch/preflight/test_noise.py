"""The loop that measures the noise of one core."""

from itertools import count

from launch.preflight.noise import window_seconds


def test_windows_have_equal_work_and_a_limit_in_time() -> None:
    ticks = count(0, 0.01)
    found = window_seconds(5, lambda: float(next(ticks)))
    assert len(found) == 5
    slow = count(0, 20.0)  # s per reading of the clock
    assert len(window_seconds(100, lambda: float(next(slow)))) < 3
