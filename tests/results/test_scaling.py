"""Throughputs, speed-ups and efficiencies, from windows with known values."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

from results.rates import ASSUMED_SCATTER, job_windows, rate, rate_of
from results.scaling import scaling
from results.speedup import ratio
from tests.support.runs.records import PUBLISHED, points, record

pytestmark = pytest.mark.pythons


def test_a_window_lasts_as_long_as_its_slowest_rank() -> None:
    two = record([[9, 1.0, 2.0], [9, 2.0, 1.0]], devices=2, kvstore="dist_sync")
    assert job_windows(two).counting == ((2.0, 16), (2.0, 16))
    assert rate_of(two) == 8.0


def test_warm_up_does_not_count() -> None:
    assert rate_of(record([[100.0, 2.0, 2.0]])) == 4.0
    assert rate_of(record([[100.0, 50.0, 2.0]], warmup_windows=2)) == 4.0


def test_rates_are_images_over_time_not_means_of_rates() -> None:
    assert rate_of(record([[1.0, 1.0, 3.0]])) == 4.0


def test_asynchronous_ranks_are_taken_over_their_common_time() -> None:
    fields = {"devices": 2, "kvstore": "dist_async", "warmup_windows": 0}
    # Rank 0: 8 images/s for 4 s. Rank 1: 4 images/s for 8 s.
    both = record([[1.0] * 4, [2.0] * 4], **fields)
    assert rate_of(both) == pytest.approx(12.0)


@settings(deadline=None)
@given(st.floats(0.1, 1e4))
def test_perfect_scaling_is_an_efficiency_of_one(one: float) -> None:
    rows = scaling(points({devices: one * devices for devices in (1, 2, 4, 16, 32)}))
    for row in rows:
        assert row.device.efficiency.value == pytest.approx(1)
        assert row.device.speedup.value == pytest.approx(row.trial.layout.devices)


def test_the_published_table_gives_its_speedups_against_both_bases() -> None:
    last = scaling(points(PUBLISHED))[-1]
    assert last.trial.layout.devices == 256
    assert round(last.device.speedup.value, 1) == 135.5
    assert last.device.base == "device on 1 device"
    assert round(100 * last.device.efficiency.value, 1) == 52.9
    assert last.host.base == "device on 16 devices"
    assert round(100 * last.host.efficiency.value, 1) == 91.2


def test_every_base_is_named_and_the_local_one_comes_first() -> None:
    fields = {"devices_per_host": 2}
    rows = scaling(
        [
            record([[1, 2.0, 2.0]], kvstore="dist_sync", **fields),
            record([[1, 1.0, 1.0]], kvstore="local", **fields),
            record([[1, 2.0, 2.0]] * 2, devices=2, kvstore="dist_sync", **fields),
        ]
    )
    two = rows[-1]
    assert (two.device.base, two.device.speedup.value) == ("local on 1 device", 1.0)
    assert (two.worker.base, two.worker.speedup.value) == ("dist_sync on 1 device", 2.0)
    assert (two.host.base, two.host.speedup.value) == ("dist_sync on 2 devices", 1.0)
    assert rows[0].host is None
    assert rows[1].worker is None


def test_points_of_other_batches_or_data_are_no_base() -> None:
    rows = scaling(
        [
            record([[1, 1.0, 1.0]], batch_per_device=4),
            record([[1, 1.0, 1.0]] * 2, devices=2, kvstore="dist_sync"),
            record([[1, 1.0, 1.0]], steps_per_window=10),
            record([[1, 1.0, 1.0]], lr=0.5),
        ]
    )
    assert rows[1].device is None
    assert rows[1].worker is None


def test_one_bad_repeat_leaves_the_point_without_a_number() -> None:
    windows = [[1, 1.0, 1.0]]
    (row,) = scaling(
        [
            record(windows, repeat=0),
            record(windows, repeat=1, status="hung"),
            record(windows, repeat=2),
        ]
    )
    assert (row.status, row.message, row.rate) == ("hung", "broken", None)


def test_a_point_without_its_base_has_no_speedup() -> None:
    rows = scaling(
        [
            record([[1, 1.0]], status="failed"),
            record([[1, 1.0, 1.0]] * 2, devices=2, kvstore="dist_sync"),
        ]
    )
    assert rows[1].device is None
    assert rows[1].rate is not None


def test_one_window_has_no_interval() -> None:
    only = rate([record([[1.0, 2.0]])])
    assert (only.images_per_second, only.low, only.high) == (4.0, None, None)
    assert ratio(only, rate([record([[1.0, 2.0]])])).low is None


def test_a_ratio_carries_the_errors_of_both() -> None:
    point, base = (rate([record([[1, 1.0, 1.1, 0.9, 1.05]], seed=n)]) for n in (0, 1))
    found = ratio(point, base)
    assert found.value == 1
    # Twice the variance, and with errors of equal size the freedom of both and one more.
    half = stdtrit(2 * point.error.degrees_of_freedom + 1, 0.975) * math.sqrt(2) * point.error.size
    assert found.high is not None
    assert math.log(found.high) == pytest.approx(half, rel=1e-3)
    assert ratio(base, base).low == 1


def test_repeats_carry_the_spread_between_processes() -> None:
    slow, fast = (record([[1, second, second]], repeat=n) for n, second in enumerate((2.0, 1.0)))
    both = rate([slow, fast])
    assert both.images_per_second == pytest.approx(16 * 2 / 6)
    assert (both.repeats, both.windows) == (2, 4)
    assert both.low < 4.0
    assert both.high > 8.0


def test_repeats_count_alike_however_many_windows_they_took() -> None:
    long, short = record([[1, *[2.0] * 9]], repeat=0), record([[1, 1.0]], repeat=1)
    assert rate([long, short]).images_per_second == pytest.approx(16 / 3)


def test_a_slow_start_counts_for_nothing_in_any_rate() -> None:
    one = [9.0, *[1.5] * 3, *[1.0, 1.01, 0.99] * 4]
    assert rate_of(record([one])) == pytest.approx(8.0, rel=0.002)
    both = record([one, one], devices=2, kvstore="dist_async")
    assert rate_of(both) == pytest.approx(16.0, rel=0.002)
    assert rate([both]).error.size < 1.1 * ASSUMED_SCATTER


def test_an_asynchronous_rate_leaves_out_what_lies_between_windows() -> None:
    one = record([[1.0] * 40] * 2, devices=2, kvstore="dist_async")
    ranks = [
        dataclasses.replace(rank, ends=tuple(at + 5 * (n // 5) for n, at in enumerate(rank.ends)))
        for rank in one.ranks
    ]
    later = tuple(at + 1.5 for at in ranks[1].ends)  # the second validates 1.5 s after the first
    for second in (ranks[1], dataclasses.replace(ranks[1], ends=later)):
        gaps = dataclasses.replace(one, ranks=(ranks[0], second))
        assert rate_of(gaps) == pytest.approx(16.0)
        assert rate_of(one) == pytest.approx(16.0)
    never = tuple(at + (2.5 if n % 5 < 3 else 0) for n, at in enumerate(ranks[1].ends))
    assert (
        rate_of(
            dataclasses.replace(one, ranks=(ranks[0], dataclasses.replace(ranks[1], ends=never)))
        )
        > 0
    )
