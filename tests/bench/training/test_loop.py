"""The end of a measurement, and the values that each rank computes on its own."""

from pathlib import Path
from typing import Any

import pytest

from bench.notes import NoteKind
from launch.job.monitor import Deadlines
from results.record import Record
from results.scaling import scaling
from tests.support.programs.jobs import left_over, measured, tiny, trial
from tests.support.repeats import slow
from tests.support.training.workers import SYNTHETIC, trained

SYNC: dict[str, Any] = {"kvstore": "dist_sync", "devices": 2, "servers_per_host": 1}


@pytest.fixture(scope="module")
def precise(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """A job that ends at its precision, whose processes synchronize by files."""
    what = tiny(**SYNC, windows=2000, precision=0.5, env=["DMLC_LOCAL=1"])
    (record,) = measured(tmp_path_factory.mktemp("precise"), what, deadlines=Deadlines())
    return record


@pytest.mark.mxnet
def test_measuring_ends_at_the_same_window_everywhere_once_the_rate_is_known(
    precise: Record,
) -> None:
    assert precise.status == "ok"
    assert {note.kind for note in precise.notes} <= {NoteKind.BRIEF}  # busy machines take longer
    assert len({len(rank.seconds) for rank in precise.ranks}) == 1
    assert 7 <= len(precise.ranks[0].seconds) < 200
    assert {rank.facts["ended"] for rank in precise.ranks} == {"precision"}


@pytest.mark.mxnet
def test_a_job_that_meets_at_files_is_one_job(precise: Record) -> None:
    assert precise.status == "ok", precise.message
    assert {rank.facts["num_workers"] for rank in precise.ranks} == {2}
    assert len({rank.facts["weight_hash"] for rank in precise.ranks}) == 1


@pytest.mark.mxnet
@pytest.mark.parametrize("store", ["dist_async", *slow("dist_sync")])
def test_measuring_ends_when_its_time_is_spent(tmp_path: Path, store: str) -> None:
    """Workers of a synchronous store agree as they do on the precision."""
    what = tiny(**SYNC | {"kvstore": store}, windows=100_000, precision=1e-9, budget_seconds=0.5)
    (record,) = measured(tmp_path, what, deadlines=Deadlines())
    assert record.status == "ok"
    assert {rank.facts["ended"] for rank in record.ranks} == {"seconds"}
    assert sorted(rank.rank for rank in record.ranks) == [0, 1]
    assert {rank.facts["num_workers"] for rank in record.ranks} == {2}
    assert what.asynchronous or len({len(rank.seconds) for rank in record.ranks}) == 1
    assert left_over() == []


@pytest.mark.mxnet
def test_a_worker_alone_ends_when_its_time_is_spent() -> None:
    words = ["--windows=100000", "--precision=1e-9", "--budget-seconds=0.5"]
    assert trained(*SYNTHETIC, *words).ended == "seconds"


def rehearsed(tmp_path: Path, *faults: str, **fields: object) -> Record:
    base = {"windows": 60, "precision": 0.02, "fake_seconds": [1.0], "devices": 4}
    base |= {"servers_per_host": 1}
    (record,) = measured(tmp_path, trial(*faults, **base | fields))
    assert record.status == "ok"
    return record


@pytest.mark.program
@pytest.mark.parametrize(
    ("fields", "ended", "spent"),
    [
        ({"fake_noise": 0.02, "fake_correlation": 0.3}, "precision", None),
        ({"fake_noise": 0.3}, "windows", 60),
        ({"fake_noise": 0.3, "budget_seconds": 20}, "seconds", 20),
    ],
)
def test_a_point_says_what_ended_it(
    tmp_path: Path, fields: dict[str, object], ended: str, spent: float | None
) -> None:
    record = rehearsed(tmp_path, **fields)
    assert {rank.facts["ended"] for rank in record.ranks} == {ended}
    assert [note.figures["amount"] for note in record.notes] == ([spent] if spent else [])
    assert len({len(rank.seconds) for rank in record.ranks}) == 1


@pytest.mark.program
def test_a_rank_that_computes_more_slowly_than_the_others_is_named(tmp_path: Path) -> None:
    noise = {"fake_noise": 0.02, "fake_correlation": 0.3}
    slow = rehearsed(tmp_path / "slow", "worker-2:slow", **noise)
    (rank,) = (one for one in slow.ranks if one.process == "worker-2")
    (note,) = scaling([slow])[0].notes
    assert note.kind == NoteKind.SLOW_RANK
    assert note.scope == {"rank": rank.rank, "host": rank.host}
    alike = rehearsed(tmp_path / "alike", **noise)
    assert [len(one.own_seconds) for one in alike.ranks] == [8] * 4
    assert scaling([alike])[0].notes == ()
