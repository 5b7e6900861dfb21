"""Points that a prediction may start from, and runs that it refuses."""

import dataclasses
from typing import Any

import pytest

from bench.errors import SpecError
from results.comparison.references import reference
from results.prediction.population import Kind
from results.prediction.series import series_of
from results.record import Record
from results.scaling import scaling
from tests.support.runs.records import record

STEADY = [1.0, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99]


def point(devices: int, seconds: float = 1.0, **fields: Any) -> Record:
    """Return a good point; a host has two devices."""
    status = fields.pop("status", "ok")
    whole = {"devices_per_host": 2, "kvstore": "local" if devices < 3 else "dist_sync"} | fields
    one = record([], devices=devices, **whole).trial
    windows = [[seconds * each for each in STEADY]] * one.workers
    return record(windows if status == "ok" else [], status=status, devices=devices, **whole)


def refused(*records: Record, **options: Any) -> str:
    with pytest.raises(SpecError) as error:
        series_of(scaling(records), **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_series_has_the_points_of_a_network_by_devices() -> None:
    (one,) = series_of(scaling([point(4, 1.2), point(1), point(2, 1.1)]))
    assert [row.trial.layout.devices for row in one.rows] == [1, 2, 4]
    assert (one.devices, one.full_host, one.network) == (4, 2, "alexnet")


def test_one_series_per_network() -> None:
    names = [one.network for one in series_of(reference("tutorial").rows)]
    assert names == ["alexnet", "inception-v3", "resnet-152"]


def test_one_point_is_refused() -> None:
    assert "expected two points or more, got one (alexnet local x1)" in refused(point(1))


def test_a_run_without_training_is_refused() -> None:
    rows = [point(1), point(2)]
    assert "expected points of training, got none" in refused(*rows, words="nccl")
    assert "--up-to: no point has so few devices" in refused(*rows[1:], most=1)


@pytest.mark.parametrize("status", ["failed", "hung", "timeout"])
def test_a_point_without_a_result_is_refused(status: str) -> None:
    line = refused(point(1), point(2, status=status))
    assert line.startswith(f"alexnet local x2: expected status ok, got {status}. Measure it again")


def test_an_unstable_point_is_refused() -> None:
    drift = record([[1.0 + 0.1 * n for n in range(12)]], devices=2, devices_per_host=2)
    assert "got unstable" in refused(point(1), drift)


def test_an_oversubscribed_point_is_refused() -> None:
    assert "got oversubscribed" in refused(point(1), dataclasses.replace(point(2), emulated=True))


def test_a_bad_point_can_be_left_out() -> None:
    rows = scaling([point(1), point(2, 1.1), point(4, status="failed")])
    assert series_of(rows, most=2)[0].devices == 2


def test_two_batches_need_a_choice() -> None:
    rows = [point(n, batch_per_device=batch) for n in (1, 2) for batch in (8, 16)]
    assert "expected one batch_per_device, got 8 and 16" in refused(*rows)
    assert "--batch 8" in refused(*rows)
    (one,) = series_of(scaling(rows), batch=16)
    assert (one.batch, one.alone) == (16, None)


def test_two_stores_need_a_choice() -> None:
    rows = [point(n, kvstore=store) for n in (1, 2) for store in ("local", "dist_sync")]
    line = refused(*rows)
    assert "alexnet on 1 device: expected one kvstore, got local and dist_sync" in line
    assert line.endswith("Choose with --point dist_sync")
    (one,) = series_of(scaling(rows), "dist_sync")
    assert {row.trial.layout.kvstore for row in one.rows} == {"dist_sync"}


def test_points_with_another_setting_need_a_choice() -> None:
    line = refused(point(1), point(2, lr=0.5))
    assert "expected one lr, got 0.01 and 0.5. Choose with --point lr=0.01" in line


def test_a_fixed_global_batch_is_refused() -> None:
    rows = [point(n, batch_per_device=0, global_batch_fixed=32) for n in (1, 2)]
    assert "global batch is fixed" in refused(*rows)


def test_another_batch_needs_its_point_on_one_device() -> None:
    rows = [point(1), point(2, 1.2)]
    assert "--batch 32 of alexnet: expected the point on one device" in refused(*rows, batch=32)
    (one,) = series_of(scaling([*rows, point(1, 3.0, batch_per_device=32)]), batch=32)
    assert one.alone is not None
    assert one.alone.step_seconds == pytest.approx(3.0, rel=0.01)


def with_bytes(one: Record, number: object) -> Record:
    ranks = (dataclasses.replace(rank, facts={"bytes_each_way": number}) for rank in one.ranks)
    return dataclasses.replace(one, ranks=tuple(ranks))


def test_recorded_bytes_count_before_those_of_the_network() -> None:
    (one,) = series_of(scaling([with_bytes(point(n), 1e6) for n in (1, 2)]))
    assert one.gradient_bytes == 1e6
    (other,) = series_of(scaling([point(1), point(2)]))
    assert other.gradient_bytes == pytest.approx(203.4e6, rel=0.001)


@pytest.mark.parametrize("number", [0, -5, float("nan"), float("inf"), "9", None])
def test_absurd_bytes_are_ignored(number: object) -> None:
    (one,) = series_of(scaling([with_bytes(point(n, network="tiny"), number) for n in (1, 2)]))
    assert one.gradient_bytes is None
    assert one.kinds(1) == [Kind.HEAVY]


def test_a_job_that_computes_long_is_light() -> None:
    (one,) = series_of(scaling([point(n, 10.0) for n in (1, 2)]))
    assert one.kinds(1) == [Kind.LIGHT]
    assert one.kinds(2) == [Kind.MULTI, Kind.LIGHT]
    assert one.kinds(1, link=1e6) == [Kind.HEAVY]
