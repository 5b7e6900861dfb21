"""Jobs of the real engine: what they measure, read and learn."""

import math
from pathlib import Path

import pytest

from bench.notes import INTERFERENCE, NoteKind, texts
from bench.trial import make
from im2rec_tools.formats.recordio import ImageRecord, frame, pack
from launch.job.monitor import Deadlines
from tests.support.programs.jobs import left_over, measured, tiny

pytestmark = pytest.mark.mxnet
# On a machine that does other things too, and in tests that are brief.
USUAL = {NoteKind.BUSY_BASELINE, NoteKind.BRIEF, *INTERFERENCE}


def test_local_jobs_on_one_and_two_devices_are_measured(tmp_path: Path) -> None:
    for record in measured(tmp_path, tiny(), tiny(devices=2), deadlines=Deadlines()):
        assert record.status == "ok"
        assert record.message == ""
        assert {note.kind for note in record.notes} <= USUAL
        (rank,) = record.ranks
        assert len(rank.seconds) == 4
        assert set(rank.images) == {record.trial.worker_batch}
        assert rank.facts["arrays"] == 8


@pytest.mark.parametrize(
    "kvstore", [pytest.param("dist_sync", marks=pytest.mark.pythons), "dist_async"]
)
def test_a_distributed_job_is_one_job(tmp_path: Path, kvstore: str) -> None:
    # Long enough that asynchronous workers, who start when they like, are at work at once.
    trial = tiny(kvstore=kvstore, devices=2, windows=3 if kvstore == "dist_sync" else 400)
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "ok"
    assert sorted(rank.rank for rank in record.ranks) == [0, 1]
    assert {rank.facts["num_workers"] for rank in record.ranks} == {2}
    if kvstore == "dist_sync":
        assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1
    assert left_over() == []


def test_training_on_photographs_stops_when_every_rank_has_learnt(
    tmp_path: Path, photographs: Path
) -> None:
    trial = make(
        {
            "mode": "real",
            "network": "tiny",
            "image_shape": [3, 224, 224],
            "num_classes": 10,
            "batch_per_device": 16,
            "kvstore": "dist_sync",
            "devices": 2,
            "data_train": str(photographs / "train"),
            "data_val": str(photographs / "val"),
            "rgb_std": [58.393, 57.12, 57.375],
            "windows": 0,
            "num_epochs": 30,
            "stop_accuracy": 0.5,
        }
    )
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "ok", record.message
    assert NoteKind.PAGE_CACHE in {note.kind for note in record.notes}
    assert record.accuracy is not None
    assert record.accuracy > 0.5
    windows = {len(rank.seconds) for rank in record.ranks}
    assert len(windows) == 1
    assert windows.pop() % math.ceil(120 / 16) == 0


def test_fewer_windows_than_asked_for_are_no_measurement(tmp_path: Path, photographs: Path) -> None:
    fields = {"data_train": str(photographs / "train"), "image_shape": [3, 224, 224]}
    base = {"mode": "real", "batch_per_device": 80, "windows": 20, "num_epochs": 1, **fields}
    exact, most = make({**base, "precision": 0.0}), make(base)
    first, second = measured(tmp_path, exact, most, deadlines=Deadlines())
    assert first.status == "failed"
    assert "failed: it was done after 3 of 21 windows; its log ends: rank 0" in first.message
    # Where windows are the most that is measured, the end of training is one of its limits.
    assert second.status == "ok"
    assert "a budget of 1 epochs was spent before the rate was known to 2 %" in texts(second.notes)


def test_a_label_that_the_network_has_no_class_for_is_named(
    tmp_path: Path, photographs: Path
) -> None:
    data = str(photographs / "train")
    base = {"mode": "real", "data_train": data, "image_shape": [3, 64, 64], "windows": 3}
    for more in ({}, {"options": ["--random-mirror=1"]}):
        trial = make({**base, "batch_per_device": 8, "num_classes": 5, **more})
        (record,) = measured(tmp_path / str(len(more)), trial, deadlines=Deadlines())
        assert record.status == "failed"
        assert "outside of --num-classes 5" in record.message


def test_a_record_without_an_image_is_named(tmp_path: Path) -> None:
    junk = pack(ImageRecord(index=0, labels=(0.0,), image=b"no image"))
    (tmp_path / "junk.rec").write_bytes(frame(junk) * 8)
    trial = make(
        {"mode": "test-io", "batch_per_device": 8, "data_train": str(tmp_path / "junk.rec")}
    )
    (record,) = measured(tmp_path / "run", trial, deadlines=Deadlines())
    assert record.status == "failed"
    assert "junk.rec: the record at byte 0: holds no image that can be decoded" in record.message
    assert "Traceback" not in record.message


@pytest.mark.pythons
def test_reading_alone_is_measured_past_the_prefetch(tmp_path: Path, photographs: Path) -> None:
    fields = {"data_train": str(photographs / "train"), "image_shape": [3, 224, 224]}
    trial = make({"mode": "test-io", "batch_per_device": 8, "windows": 4, **fields})
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    (rank,) = record.ranks
    assert record.status == "ok"
    assert rank.seconds[0] >= 1.0
    assert min(rank.seconds[1:]) >= 0.5
    assert sum(rank.images) > 240


def test_cold_reading_says_what_the_page_cache_held(tmp_path: Path, photographs: Path) -> None:
    data = str(photographs / "val")
    fields = {"data_train": data, "image_shape": [3, 224, 224], "windows": 2, "cold": True}
    trial = make({"mode": "test-io", "batch_per_device": 8, "data_nthreads": 2, **fields})
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    if "stay in memory" in record.message:
        pytest.skip("this file system keeps its files in memory")
    assert record.status == "ok", record.message
    assert texts(record.notes)[0].startswith("cold page cache (0 % of ")
