"""When a real job has measured enough, and what each rank computes by itself."""

from pathlib import Path

import pytest

from launch.watch import Deadlines
from tests.jobs import measured, tiny

pytestmark = pytest.mark.mxnet


def test_measuring_ends_at_the_same_window_everywhere_once_the_rate_is_known(
    tmp_path: Path,
) -> None:
    trial = tiny(kvstore="dist_sync", devices=2, windows=2000, precision=0.5)
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert (record.status, record.message) == ("ok", "")
    assert len({len(rank.seconds) for rank in record.ranks}) == 1
    assert 7 <= len(record.ranks[0].seconds) < 200
    assert {rank.facts["ended"] for rank in record.ranks} == {"precision"}
    assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1


@pytest.mark.parametrize(
    "layout", [{}, {"kvstore": "dist_sync", "devices": 2}, {"kvstore": "dist_async", "devices": 2}]
)
def test_measuring_ends_when_its_time_is_spent(tmp_path: Path, layout: dict[str, object]) -> None:
    trial = tiny(**layout, windows=100_000, precision=1e-9, budget_seconds=2)
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "ok"
    assert {rank.facts["ended"] for rank in record.ranks} == {"seconds"}
    if not trial.asynchronous:
        assert len({len(rank.seconds) for rank in record.ranks}) == 1


def test_ranks_that_wait_for_each_other_say_what_they_need_by_themselves(tmp_path: Path) -> None:
    together = tiny(kvstore="dist_sync", devices=2, windows=10)
    alone = tiny(windows=10)
    first, second = measured(tmp_path, together, alone, deadlines=Deadlines())
    for rank in first.ranks:
        assert len(rank.own_seconds) == 8
        assert 0 < sorted(rank.own_seconds)[4] < sorted(rank.seconds[1:])[5]
    assert second.ranks[0].own_seconds == ()
