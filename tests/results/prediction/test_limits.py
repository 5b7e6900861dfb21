"""Measured ceilings cap predictions of the jobs that they fit."""

from typing import Any

import pytest

from results.explain.ceilings import CeilingPoint
from results.prediction.forecast import Ceiling, plausible, predict
from results.prediction.limits import Limits, limits_of
from results.prediction.series import Series, series_of
from results.repeat import summarize
from results.scaling import scaling
from tests.support.runs.records import record

STEADY = [1.0, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99]
TWO: dict[str, Any] = {"devices": 2, "devices_per_host": 1, "kvstore": "dist_sync"}
STEP_BYTES = 203.376e6


def series(hosts: int = 2) -> Series:
    """Return AlexNet on one device, and on two hosts of one device or one host of two."""
    last = TWO if hosts == 2 else {"devices": 2, "devices_per_host": 2}
    windows = [[1.1 * one for one in STEADY]] * hosts
    rows = scaling([record([STEADY], devices_per_host=1), record(windows, **last)])
    return series_of(rows)[0]


def moved(per_second: float, raw_tcp: float | None = None) -> CeilingPoint:
    """Return a point of bench.bandwidth: two workers and servers, the same hosts."""
    one = record([STEADY] * 2, mode="bandwidth", **TWO)
    return CeilingPoint(
        run="b", trial=one.trial, first=summarize(one), per_second=per_second, raw_tcp=raw_tcp
    )


def test_a_measured_store_caps_every_worker() -> None:
    found = limits_of([], series(), Limits(), [moved(STEP_BYTES / 1.09)])
    assert found.server == pytest.approx(STEP_BYTES / 1.09)
    made = predict(series(), 8, found)
    assert made.high_95 == pytest.approx(8 * 8 / 1.09, rel=1e-3)
    assert made.ceiling is Ceiling.SERVER


def test_measured_tcp_is_the_link_unless_one_is_given() -> None:
    points = [moved(1e12, raw_tcp=5e8)]
    assert limits_of([], series(), Limits(), points).link == 5e8
    assert limits_of([], series(), Limits(link=9e8), points).link == 9e8


def test_one_host_measures_no_network() -> None:
    found = limits_of([], series(1), Limits(), [moved(1e6, raw_tcp=1e6)])
    assert (found.link, found.server) == (None, None)


def test_a_measured_ceiling_below_the_last_point_is_no_ceiling() -> None:
    given = Limits()
    found = limits_of([], series(), given, [moved(STEP_BYTES / 2, raw_tcp=1e12)])
    assert plausible(series(), found, given).server is None
    assert plausible(series(), found, given).link == 1e12
    slow = Limits(link=1e6)
    assert plausible(series(), limits_of([], series(), slow), slow).link == 1e6
