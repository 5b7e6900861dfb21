"""Parallel work on many hosts: results as they arrive, and the first exception."""

import time

import pytest

from launch.remote.errors import LaunchError
from launch.transport.client import as_completed, map_hosts


def test_results_come_as_they_are_done_and_an_exception_at_once() -> None:
    def act(seconds: float) -> float:
        if seconds < 0:
            raise LaunchError("no")
        time.sleep(seconds)
        return seconds

    assert [place for place, _ in as_completed(act, [0.4, 0.0, 0.2], 3)] == [1, 2, 0]
    assert map_hosts(act, [0.2, 0.0], 2) == [0.2, 0.0]
    began = time.monotonic()
    with pytest.raises(LaunchError, match="no"):
        map_hosts(act, [20.0, -1.0], 2)
    assert time.monotonic() - began < 5.0
