"""Jobs whose workers add up MXNet's gradients by themselves."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bench.trial import Trial
from launch.job.monitor import Deadlines
from results.record import Record
from tests.support.programs.jobs import disturbed, left_over, measured, pid_of_rank, running, tiny

pytestmark = pytest.mark.mxnet
torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")
OVER_LOOPBACK = ["MXSCALE_SHARED_MEMORY=0"]


def two(**fields: Any) -> Trial:
    """Return a job of two workers that MXNet trains in milliseconds."""
    return tiny(**{"kvstore": "allreduce", "devices": 2} | fields)


def hashes(record: Record) -> set[object]:
    """Return the different weights of a job's workers."""
    assert record.status == "ok", record.message
    return {rank.facts["weight_hash"] for rank in record.ranks}


def test_two_workers_have_the_weights_of_dist_sync_bit_by_bit(tmp_path: Path) -> None:
    trials = two(kvstore="dist_sync"), two(), two(env=OVER_LOOPBACK), two(gc_type="ternary")
    servers, shared, sent, ternary = measured(tmp_path, *trials, deadlines=Deadlines())
    assert len(hashes(servers)) == 1
    assert hashes(servers) == hashes(shared) == hashes(sent)
    for rank in shared.ranks:
        assert (rank.facts["num_workers"], rank.facts["torch"]) == (2, torch.__version__)
    assert [rank.facts["bytes_each_way"] for rank in sent.ranks] == [4 * 90_512] * 2
    assert len(hashes(ternary)) == 1
    assert hashes(ternary) != hashes(shared)
    assert 10 * ternary.ranks[0].facts["bytes_each_way"] < sent.ranks[0].facts["bytes_each_way"]
    assert left_over() == []


@pytest.mark.slow
@pytest.mark.parametrize("env", [[], OVER_LOOPBACK])
def test_workers_with_unequal_batches_stay_equal(tmp_path: Path, env: list[str]) -> None:
    (record,) = measured(
        tmp_path,
        two(devices=3, env=env, emulate=True, batch_per_device=0, global_batch_fixed=8),
        deadlines=Deadlines(),
    )
    assert len(hashes(record)) == 1


@pytest.mark.slow
def test_workers_share_photographs_validate_and_stop_together(
    photographs: Path, tmp_path: Path
) -> None:
    trial = two(
        mode="real",
        num_classes=10,
        data_train=str(photographs / "train"),
        data_val=str(photographs / "val"),
        rgb_std=[58.0, 57.0, 57.0],
        windows=0,
        num_epochs=30,
        stop_accuracy=0.2,
        batch_per_device=12,
        options=[f"--model-prefix={tmp_path / 'model'}"],
    )
    (record,) = measured(tmp_path / "run", trial, deadlines=Deadlines())
    assert len(hashes(record)) == 1
    assert len({len(rank.seconds) for rank in record.ranks}) == 1
    assert list(tmp_path.glob("model-*.optimizer"))


@pytest.mark.slow
def test_ternary_training_continues_as_if_not_interrupted(
    photographs: Path, tmp_path: Path
) -> None:
    def part(prefix: str, epochs: int, *options: str) -> Trial:
        return two(
            mode="real",
            gc_type="ternary",
            num_classes=10,
            data_train=str(photographs / "train"),
            rgb_std=[58.0, 57.0, 57.0],
            windows=0,
            num_epochs=epochs,
            batch_per_device=12,
            options=[f"--model-prefix={tmp_path / prefix}", *options],
        )

    trials = part("a", 2), part("b", 1), part("b", 2, "--load-epoch=1")
    whole, _, rest = (
        measured(tmp_path / f"run-{number}", trial, deadlines=Deadlines())[0]
        for number, trial in enumerate(trials)
    )
    assert len(hashes(whole)) == 1
    assert hashes(rest) == hashes(whole)


@pytest.mark.slow
def test_a_killed_worker_fails_the_point_at_once(tmp_path: Path) -> None:
    with running(tmp_path, two(windows=100_000), deadlines=Deadlines()) as updates:
        record, _ = disturbed(updates, lambda: os.kill(pid_of_rank(1), signal.SIGKILL))
    assert record.status == "failed"
    assert "worker 1 (rank 1)" in record.message
    assert "was killed by SIGKILL" in record.message
    assert left_over() == []
