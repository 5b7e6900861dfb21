"""Jobs of the real engine: measurements, input and training."""

from pathlib import Path

import pytest

from bench.notes import INTERFERENCE, NoteKind, texts
from bench.trial import make
from launch.job.monitor import Deadlines
from results.scaling import scaling
from tests.support.programs.jobs import measured, tiny

pytestmark = pytest.mark.mxnet
# On a machine that does other things too, and in tests that are brief.
USUAL = {NoteKind.BUSY_BASELINE, NoteKind.BRIEF, *INTERFERENCE}


def test_a_local_job_on_two_devices_is_measured(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, tiny(devices=2), deadlines=Deadlines())
    assert record.status == "ok"
    assert record.message == ""
    assert {note.kind for note in record.notes} <= USUAL
    (rank,) = record.ranks
    assert len(rank.seconds) == 4
    assert set(rank.images) == {record.trial.worker_batch}
    assert rank.facts["arrays"] == 8
    assert "bytes_each_way" not in rank.facts
    assert len(rank.own_seconds) == 3
    assert rank.input_wait == (0.0,) * 4
    assert len(rank.run_delay) == 4


@pytest.mark.slow
def test_fewer_windows_than_asked_for_are_no_measurement(tmp_path: Path, photographs: Path) -> None:
    fields = {"data_train": str(photographs / "train"), "image_shape": [3, 32, 32]}
    base = {"mode": "real", "batch_per_device": 80, "windows": 20, "num_epochs": 1, **fields}
    exact, most = make({**base, "precision": 0.0}), make(base)
    first, second = measured(tmp_path, exact, most, deadlines=Deadlines())
    assert first.status == "failed"
    assert "failed: done after 3 of 21 windows; last log lines: rank 0" in first.message
    (rank,) = second.ranks
    assert len(rank.own_seconds) == 3
    assert len(rank.input_wait) == len(rank.seconds)
    assert 0 < rank.input_wait[0] < rank.seconds[0]
    # Where windows are the most that is measured, the end of training is one of its limits.
    assert second.status == "ok"
    assert "the budget of 1 epochs was spent before the relative precision reached ±2 %" in texts(
        second.notes
    )


@pytest.mark.pythons
def test_reading_alone_is_measured_past_the_prefetch(tmp_path: Path, photographs: Path) -> None:
    fields = {"data_train": str(photographs / "train"), "image_shape": [3, 224, 224]}
    reading = {"mode": "test-io", "batch_per_device": 8, "windows": 2, "data_nthreads": 1}
    trial = make(reading | fields)
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    (rank,) = record.ranks
    assert record.status == "ok"
    assert rank.seconds[0] >= 1.0
    assert min(rank.seconds[1:]) >= 0.5
    assert sum(rank.images) > 120


def test_readers_divide_the_images_and_read_at_the_same_time(
    tmp_path: Path, photographs: Path
) -> None:
    fields = {"data_train": str(photographs / "train"), "image_shape": [3, 32, 32]}
    reading = {"mode": "test-io", "batch_per_device": 8, "windows": 4, "data_nthreads": 1}
    trial = make(reading | fields | {"devices": 2, "devices_per_worker": 1})
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "ok", record.message
    assert sorted(rank.rank for rank in record.ranks) == [0, 1]
    assert {rank.facts["num_workers"] for rank in record.ranks} == {2}
    assert {len(rank.seconds) for rank in record.ranks} == {5}
    (row,) = scaling([record])
    each = [sum(rank.images) / sum(rank.seconds) for rank in record.ranks]
    assert row.rate is not None
    assert max(each) < row.rate.images_per_second < 1.5 * sum(each)


@pytest.mark.slow
def test_cold_reading_says_what_the_page_cache_held(tmp_path: Path, photographs: Path) -> None:
    data = str(photographs / "val")
    fields = {"data_train": data, "image_shape": [3, 224, 224], "windows": 1, "cold": True}
    trial = make({"mode": "test-io", "batch_per_device": 8, "data_nthreads": 2, **fields})
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    if "stay in memory" in record.message:
        pytest.skip("needs files on a disk, not in memory")
    assert record.status == "ok", record.message
    assert texts(record.notes)[0].startswith("cold page cache (0 % of ")
