"""When a job has measured enough, and what each rank computes by itself."""

from pathlib import Path

import pytest

from bench.notes import NoteKind
from launch.job.monitor import Deadlines
from results.record import Record
from results.scaling import scaling
from tests.support.programs.jobs import measured, tiny, trial


@pytest.mark.mxnet
def test_measuring_ends_at_the_same_window_everywhere_once_the_rate_is_known(
    tmp_path: Path,
) -> None:
    what = tiny(kvstore="dist_sync", devices=2, windows=2000, precision=0.5)
    (record,) = measured(tmp_path, what, deadlines=Deadlines())
    assert record.status == "ok"
    assert {note.kind for note in record.notes} <= {NoteKind.BRIEF}  # busy machines take longer
    assert len({len(rank.seconds) for rank in record.ranks}) == 1
    assert 7 <= len(record.ranks[0].seconds) < 200
    assert {rank.facts["ended"] for rank in record.ranks} == {"precision"}
    assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1


@pytest.mark.mxnet
@pytest.mark.parametrize(
    "layout", [{}, {"kvstore": "dist_sync", "devices": 2}, {"kvstore": "dist_async", "devices": 2}]
)
def test_measuring_ends_when_its_time_is_spent(tmp_path: Path, layout: dict[str, object]) -> None:
    what = tiny(**layout, windows=100_000, precision=1e-9, budget_seconds=2)
    (record,) = measured(tmp_path, what, deadlines=Deadlines())
    assert record.status == "ok"
    assert {rank.facts["ended"] for rank in record.ranks} == {"seconds"}
    if not what.asynchronous:
        assert len({len(rank.seconds) for rank in record.ranks}) == 1


@pytest.mark.mxnet
def test_ranks_that_wait_for_each_other_say_what_they_need_by_themselves(tmp_path: Path) -> None:
    together = tiny(kvstore="dist_sync", devices=2, windows=10)
    alone = tiny(windows=10)
    first, second = measured(tmp_path, together, alone, deadlines=Deadlines())
    for rank in first.ranks:
        assert len(rank.own_seconds) == 8
        assert 0 < sorted(rank.own_seconds)[4] < sorted(rank.seconds[1:])[5]
    assert second.ranks[0].own_seconds == ()


def rehearsed(tmp_path: Path, *faults: str, **fields: object) -> Record:
    base = {"windows": 60, "precision": 0.02, "fake_seconds": [1.0], "devices": 4}
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
