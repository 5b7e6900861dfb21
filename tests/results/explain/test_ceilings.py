"""Ceilings are found for the points that they fit, and for no other."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bench.trial import Trial, make
from results.explain.ceilings import (
    CeilingPoint,
    Ceilings,
    ceiling_points,
    ceilings,
    with_ceilings,
)
from results.record import Identity, Rank, Record
from results.run import load
from results.run_folder import ASKED, ENVIRONMENT
from results.scaling import ScalingRow, scaling
from results.store import Store

HOSTS = ("node01", "node02")
SHARDS = {"data_train": "data/train", "image_shape": [3, 32, 32], "data_nthreads": 1}


def record(what: Trial, *, seconds: float = 1.0, day: int = 1, **fields: Any) -> Record:
    """Return a record with four equal windows of `images` per rank."""
    images = fields.pop("images", 8)
    facts = {"data_bytes": fields.pop("data_bytes", 1000)}
    names = {"code_hash": "c", "data_manifest": "m", "hosts": HOSTS[: what.hosts]}
    identity = names | {name: fields.pop(name) for name in names if name in fields}
    machine = fields.pop("machine", "")
    ranks = tuple(
        Rank(
            rank=rank,
            host="h",
            process=f"worker-{rank}",
            seconds=(seconds,) * 4,
            ends=tuple(seconds * n for n in range(1, 5)),
            images=(images,) * 4,
            facts=facts,
        )
        for rank in range(what.workers)
    )
    return Record(
        trial=what,
        identity=Identity(name=what.name, key=what.key, repeat=0, **identity),
        status="ok",
        message="",
        ranks=ranks,
        emulated=fields.pop("emulated", False),
        started=f"2026-01-{day:02}T00:00:00.000+00:00",
        elapsed_seconds=1.0,
        machines={"h": [{"machine": machine}, {"machine": machine}]} if machine else {},
    )


def job(**fields: Any) -> Trial:
    """Return two workers with two servers on a host each."""
    base: dict[str, Any] = {"network": "tiny", "batch_per_device": 4, "kvstore": "dist_sync"}
    return make(base | {"devices": 2, "devices_per_host": 1} | fields)


def reads(**fields: Any) -> Trial:
    """Return a job of two workers on one host that reads images."""
    base = {"mode": "real", "devices_per_host": 2, "windows": 3}
    return job(**base | SHARDS | fields)


def readers(count: int = 2, **fields: Any) -> Trial:
    base = {"mode": "test-io", "batch_per_device": 32, "windows": 3, "devices": count}
    return make(base | {"devices_per_worker": 1} | SHARDS | fields)


def moves(**fields: Any) -> Trial:
    base = {"mode": "bandwidth", "network": "alexnet", "kvstore": "dist_sync", "devices": 2}
    return make(base | {"devices_per_host": 1, "batch_per_device": 1, "windows": 3} | fields)


def run(runs: Path, name: str, *records: Record, **environment: Any) -> None:
    store = Store(runs / name)
    for one in records:
        store.append(one)
    asked = [dataclasses.asdict(one.identity) | {"trial": one.trial.fields} for one in records]
    store.write(ASKED, json.dumps(asked))
    store.write(ENVIRONMENT, json.dumps(environment))
    store.close()


def row(one: Record) -> ScalingRow:
    (found,) = scaling([one])
    return found


def reading(runs: Path, one: Record) -> float | None:
    return ceilings(row(one), ceiling_points(runs)).reading


def test_a_step_is_read_in_its_images_over_the_rate_of_as_many_readers(tmp_path: Path) -> None:
    run(tmp_path, "io", record(readers(), images=32))  # two readers with 32 images/s each
    found = ceilings(row(record(reads())), ceiling_points(tmp_path))
    assert found.reading == pytest.approx(2 * 4 / 64)
    assert found.runs == ("io",)
    assert found.store_bytes_per_second is None


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({}, {"data_manifest": "other"}),
        ({"image_shape": [3, 64, 64]}, {}),
        ({"data_nthreads": 2}, {}),
        ({"options": ["--random-crop=1"]}, {}),
        ({"cold": True}, {}),
        ({"count": 1}, {}),
        ({"count": 3}, {}),
        ({}, {"hosts": ("elsewhere",)}),
    ],
)
def test_reading_that_differs_is_no_ceiling(
    tmp_path: Path, changed: dict[str, Any], where: dict[str, Any]
) -> None:
    run(tmp_path, "io", record(readers(**changed), **where))
    assert reading(tmp_path, record(reads())) is None


def test_options_of_training_do_not_change_how_images_are_read(tmp_path: Path) -> None:
    run(tmp_path, "io", record(readers(options=["--random-crop=1"])))
    trains = reads(options=["--optimizer=nag", "--random-crop=1"])
    assert reading(tmp_path, record(trains)) is not None


def test_a_host_with_another_name_counts_if_it_is_the_same_machine(tmp_path: Path) -> None:
    run(tmp_path, "io", record(readers(), hosts=("vm",), machine="boot"))
    assert reading(tmp_path, record(reads(), machine="boot")) is not None
    assert reading(tmp_path, record(reads(), machine="another")) is None


def test_a_single_reader_of_many_threads_is_no_worker_on_one_core(tmp_path: Path) -> None:
    alone = {"devices": 1, "devices_per_host": 1, "kvstore": "local"}
    run(tmp_path, "io", record(readers(1)), record(readers(1, data_nthreads=4)))
    assert reading(tmp_path, record(reads(**alone))) is not None
    assert reading(tmp_path, record(reads(**alone, data_nthreads=4))) is None
    gpu = reads(**alone, data_nthreads=4, device="gpu")
    assert reading(tmp_path, record(gpu)) is not None


def test_with_validation_data_the_place_and_size_of_the_training_data_count(
    tmp_path: Path,
) -> None:
    run(tmp_path, "io", record(readers()))
    validated = reads(data_val="data/val")
    assert reading(tmp_path, record(validated, data_manifest="both")) is not None
    assert reading(tmp_path, record(validated, data_manifest="both", data_bytes=7)) is None


def test_the_store_and_raw_tcp_are_those_of_the_same_job(tmp_path: Path) -> None:
    run(tmp_path, "moves", record(moves(), images=10**8), raw_tcp_mb_per_second=400.5)
    points = ceiling_points(tmp_path)
    found = ceilings(row(record(job())), points)
    assert found == Ceilings(
        store_bytes_per_second=1e8, tcp_bytes_per_second=400.5e6, runs=("moves",)
    )
    for other in (job(kvstore="dist_device_sync"), job(server_hosts=1), job(servers_per_host=2)):
        assert ceilings(row(record(other)), points).store_bytes_per_second is None
    assert ceilings(row(record(job(), hosts=("a", "b"))), points) == Ceilings()
    here = job(devices_per_host=2)
    assert ceilings(row(record(here)), points) == Ceilings()


def test_the_nearest_measurement_in_time_counts(tmp_path: Path) -> None:
    for day, megabytes in ((2, 200), (9, 900), (20, 2000)):
        name = f"run{day}"
        run(tmp_path, name, record(moves(), day=day), raw_tcp_mb_per_second=megabytes)
    found = ceilings(row(record(job(), day=8)), ceiling_points(tmp_path))
    assert (found.tcp_bytes_per_second, found.runs) == (900e6, ("run9",))


@pytest.mark.parametrize("raw", [None, 0, -5, True, "400", [], 10**400], ids=range(7))
def test_an_odd_figure_of_raw_tcp_is_none(tmp_path: Path, raw: Any) -> None:
    run(tmp_path, "moves", record(moves()), raw_tcp_mb_per_second=raw)
    (point,) = ceiling_points(tmp_path)
    assert point.raw_tcp is None


def test_only_good_points_of_ceilings_are_read(tmp_path: Path) -> None:
    run(tmp_path, "trains", record(reads()))
    run(tmp_path, "crowded", record(readers(), emulated=True))
    run(tmp_path, "failed", dataclasses.replace(record(readers()), status="failed", ranks=()))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "records.jsonl").write_text("{\n")
    (tmp_path / "damaged" / ASKED).write_text("[")
    assert ceiling_points(tmp_path) == []
    run(tmp_path, "io", record(readers()))
    assert [type(one) for one in ceiling_points(tmp_path)] == [CeilingPoint]


def test_a_run_knows_the_speed_of_its_own_link(tmp_path: Path) -> None:
    run(tmp_path, "moves", record(moves(), images=10**8), raw_tcp_mb_per_second=400)
    run(tmp_path, "mine", record(job()), raw_tcp_mb_per_second=25.5)
    run(tmp_path, "alone", record(job(devices_per_host=2)), raw_tcp_mb_per_second=25.5)
    (mine,), (alone,) = (load(tmp_path / name).rows for name in ("mine", "alone"))
    assert mine.verdict
    assert alone.verdict
    assert mine.verdict.measurements.tcp_bytes_per_second == 25.5e6
    assert alone.verdict.measurements.tcp_bytes_per_second is None
    # The own measurement counts before that of bench.bandwidth.
    verdict = with_ceilings(mine, ceiling_points(tmp_path)).verdict
    assert verdict
    assert verdict.measurements.tcp_bytes_per_second == 25.5e6


def test_a_verdict_knows_the_ceilings_of_its_point(tmp_path: Path) -> None:
    run(tmp_path, "moves", record(moves(), images=10**8), raw_tcp_mb_per_second=400)
    points = ceiling_points(tmp_path)
    point = row(record(job()))
    assert point.verdict is not None
    assert point.verdict.measurements.tcp_bytes_per_second is None
    found = with_ceilings(point, points)
    assert found.verdict is not None
    assert found.verdict.measurements.tcp_bytes_per_second == 400e6
    assert found.verdict.measurements.store_bytes_per_second == 1e8
    one = row(record(moves()))
    assert with_ceilings(one, points) is one
