"""Predictions: published cells, ceilings, other batches, the next point."""

import dataclasses
from typing import Any

import pytest

from bench.errors import SpecError
from results.comparison.references import reference
from results.prediction.forecast import (
    Ceiling,
    Prediction,
    check_devices,
    counts_up_to,
    largest_count,
    next_point,
    predict,
)
from results.prediction.limits import Limits, limits_of, parse_bandwidth, parse_efficiency
from results.prediction.population import Kind
from results.prediction.series import OneDevice, Series, series_of
from results.scaling import scaling
from tests.support.runs.records import record

ALEXNET = {32: 7945.57, 64: 15840.52, 128: 31334.88, 256: 61938.36}


def published(known: int, network: str = "alexnet") -> Series:
    (one,) = series_of(reference("tutorial").rows, network, known)
    return one


def test_a_published_table_is_predicted_from_one_host() -> None:
    one = published(16)
    for devices, rate in ALEXNET.items():
        made = predict(one, devices, Limits())
        assert made.images_per_second == pytest.approx(rate, rel=0.05)
        assert made.low_95 < made.low_80 < made.images_per_second < made.high_80 < made.high_95
        assert made.low_95 < rate < made.high_95
        assert made.kind is Kind.LIGHT
    assert made.constant == pytest.approx(4244.18 * 16)
    assert made.efficiency == pytest.approx(made.images_per_second / 256 / 457.07)


def test_intervals_widen_with_the_distance() -> None:
    made = [predict(published(16), n, Limits()) for n in (32, 64, 128, 256)]
    widths = [one.high_95 / one.low_95 for one in made]
    assert widths == sorted(widths)


def test_the_measured_points_own_interval_widens_them() -> None:
    bare = published(16)
    rate = dataclasses.replace(bare.rate, error=None)
    noisy = scaling([record([[9.0, 9, 8, 10, 7, 11, 9]], devices=16, devices_per_host=16)])[0].rate
    assert noisy is not None
    wide = dataclasses.replace(noisy, images_per_second=rate.images_per_second)
    last = dataclasses.replace(bare.last, rate=wide)
    made = predict(dataclasses.replace(bare, rows=(*bare.rows[:-1], last)), 32, Limits())
    assert made.low_95 < predict(bare, 32, Limits()).low_95


@pytest.mark.parametrize(
    ("devices", "line"),
    [
        (16, "expected more than the 16 measured, got 16"),
        (8, "expected more than the 16 measured, got 8"),
        (40, "expected a multiple of a full host (16 devices), got 40. Give --devices 32"),
        (20, "expected a multiple of a full host (16 devices), got 20. Give --devices 32"),
    ],
)
def test_impossible_device_counts_are_refused(devices: int, line: str) -> None:
    with pytest.raises(SpecError) as error:
        check_devices(published(16), devices)
    assert line in str(error.value)


def test_doublings_lead_to_the_requested_count() -> None:
    assert counts_up_to(published(16), 256) == [32, 64, 128, 256]
    assert counts_up_to(published(16), 96) == [32, 64, 96]
    assert counts_up_to(published(16), 32) == [32]


def ends(made: Prediction) -> list[float]:
    return [made.images_per_second, made.low_80, made.high_80, made.low_95, made.high_95]


@pytest.mark.parametrize("devices", [32, 64, 256])
@pytest.mark.parametrize("servers", [1, 2, 4])
def test_no_prediction_is_above_the_ceiling_of_its_servers(devices: int, servers: int) -> None:
    """Each host pushes 203 MB per step of 16 x 512 images to the servers."""
    made = predict(published(16), devices, Limits(link=125e6, servers=servers))
    most = servers * 125e6 / 203.376e6 * 16 * 512
    assert max(ends(made)) <= most * 1.001
    assert made.ceiling is Ceiling.SERVER or made.high_95 < most


def test_no_prediction_is_above_the_ceiling_of_the_link() -> None:
    """Half of what a host pushes, and half of what its server serves, leave it."""
    made = predict(published(16), 32, Limits(link=10e6))
    assert made.images_per_second == pytest.approx(10e6 / 203.376e6 * 32 * 512, rel=1e-3)
    assert made.high_95 == made.images_per_second
    assert made.ceiling is Ceiling.LINK


def test_a_ceiling_far_away_changes_nothing() -> None:
    far = predict(published(16), 64, Limits(link=1e12, server=1e12))
    assert far == predict(published(16), 64, Limits())
    assert far.ceiling is None


def test_the_input_pipeline_caps_training_on_real_images() -> None:
    fields: dict[str, Any] = {"mode": "real", "data_train": "a.rec", "devices_per_host": 2}
    steady = [10.0, 10.0, 10.01, 9.99, 10.0]
    rows = [record([steady], devices=n, **fields) for n in (1, 2)]
    reading = record([[1.6, 1.6, 1.6]], mode="test-io", data_train="a.rec")
    (one,) = series_of(scaling([*rows, reading]))
    known = limits_of(scaling([*rows, reading]), one, Limits())
    assert known.input == pytest.approx(5.0)
    made = predict(one, 8, dataclasses.replace(known, input=0.1))
    assert made.high_95 == pytest.approx(0.4)
    assert made.ceiling is Ceiling.INPUT


def test_a_step_loses_the_same_seconds_at_another_batch() -> None:
    one = published(16)
    half = OneDevice(batch=256, step_seconds=one.step_seconds / 2)
    made = predict(dataclasses.replace(one, alone=half), 256, Limits())
    old = predict(one, 256, Limits())
    lost = 512 * 256 / old.images_per_second - one.step_seconds
    step = 256 * 256 / made.images_per_second
    assert step - half.step_seconds == pytest.approx(lost)
    assert made.efficiency < old.efficiency


def test_the_same_batch_gives_the_same_prediction() -> None:
    one = published(16)
    same = OneDevice(batch=512, step_seconds=one.step_seconds)
    made = predict(dataclasses.replace(one, alone=same), 256, Limits())
    assert ends(made) == pytest.approx(ends(predict(one, 256, Limits())))
    assert made.constant == pytest.approx(predict(one, 256, Limits()).constant)


def test_the_most_devices_of_an_efficiency_are_the_last_that_keep_it() -> None:
    one = published(16)
    devices = largest_count(one, 0.5, Limits())
    assert devices is not None
    assert predict(one, devices, Limits()).efficiency_low >= 0.5
    assert predict(one, devices + 16, Limits()).efficiency_low < 0.5
    assert largest_count(one, 0.9, Limits()) is None
    assert largest_count(published(16, "resnet-152"), 0.1, Limits()) == 10_000


def test_two_hosts_narrow_a_heavy_jobs_interval_most() -> None:
    one = next_point(published(16), 256, Limits(link=1e8))
    assert one is not None
    assert (one.hosts, one.devices) == (2, 32)
    assert one.then < 0.5 < one.now


def test_the_next_point_is_the_best_per_host() -> None:
    one = published(16)
    best = next_point(one, 512, Limits())
    assert best is not None
    now = predict(one, 512, Limits())
    assert best.now == pytest.approx(now.high_95 / now.low_95 - 1, rel=0.01)
    gains = {}
    for known in (32, 64, 128, 256):
        then = predict(published(known), 512, Limits())
        gains[known] = (now.high_95 / now.low_95 - then.high_95 / then.low_95) / (known / 16)
    assert best.devices == max(gains, key=lambda known: gains[known])
    assert next_point(one, 32, Limits()) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("25Gb", 3.125e9),
        ("25gb", 3.125e9),
        ("200Mbit/s", 25e6),
        ("10 Gbps", 1.25e9),
        ("1.5GB", 1.5e9),
        ("3GB/s", 3e9),
    ],
)
def test_a_bandwidth_is_bits_or_bytes_per_second(text: str, value: float) -> None:
    assert parse_bandwidth(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "25", "Gb", "-1Gb", "0Gb", "1e9b", "25Xb", "nanGb"])
def test_another_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--bandwidth: expected a bandwidth above 0"):
        parse_bandwidth(text)


@pytest.mark.parametrize(("text", "value"), [("90%", 0.9), ("0.85", 0.85), ("100 %", 1.0)])
def test_an_efficiency_is_a_percentage_or_a_fraction(text: str, value: float) -> None:
    assert parse_efficiency(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "0%", "101%", "90", "-5%", "nan"])
def test_another_efficiency_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--efficiency: expected a percentage"):
        parse_efficiency(text)
