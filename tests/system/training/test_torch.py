"""Jobs of engine `torch`: measurements, real images, faults and ports."""

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

import launch.remote.agent
from bench.trial import Trial
from launch.hosts import this_machine
from launch.job.monitor import Deadlines
from launch.remote.agent import free_port
from tests.support.programs.jobs import (
    disturbed,
    left_over,
    measured,
    pid_of_rank,
    running,
    stop_settings,
    tiny,
)

pytestmark = pytest.mark.mxnet
torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")
HERE = this_machine().name


def two(**fields: Any) -> Trial:
    """Return a job of two workers that PyTorch trains in milliseconds."""
    return tiny(**{"engine": "torch", "devices": 2} | fields)


def test_two_workers_train_the_same_network_and_measure_what_a_verdict_needs(
    tmp_path: Path,
) -> None:
    (record,) = measured(tmp_path, two(windows=10), deadlines=Deadlines())
    assert record.status == "ok", record.message
    assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1
    assert [rank.process for rank in record.ranks] == ["worker-0", "worker-1"]
    for rank in record.ranks:
        assert len(rank.seconds) == len(rank.run_delay) == 11
        assert rank.facts["torch"] == torch.__version__
        assert rank.facts["num_workers"] == 2
        assert rank.facts["bytes_each_way"] == 4 * 90_504
        assert rank.own_seconds
    assert left_over() == []


@pytest.mark.slow
def test_two_workers_share_photographs_validate_and_stop_together(
    photographs: Path, tmp_path: Path
) -> None:
    trial = two(**stop_settings(photographs, tmp_path / "model"))
    (record,) = measured(tmp_path / "run", trial, deadlines=Deadlines())
    assert record.status == "ok", record.message
    assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1
    assert len({len(rank.seconds) for rank in record.ranks}) == 1
    assert 0 < len(list(tmp_path.glob("model-*.pt"))) < 30


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_a_killed_worker_fails_the_point_at_once(tmp_path: Path, index: int) -> None:
    with running(tmp_path, two(windows=100_000), deadlines=Deadlines()) as updates:
        record, seconds = disturbed(updates, lambda: os.kill(pid_of_rank(index), signal.SIGKILL))
    assert record.status == "failed"
    assert f"worker {index} (rank {index}) on {HERE} was killed by SIGKILL" in record.message
    assert seconds < 5.0
    assert left_over() == []


@pytest.mark.slow
def test_a_stopped_worker_is_named(tmp_path: Path) -> None:
    with running(tmp_path, two(windows=100_000), deadlines=Deadlines(progress=3.0)) as updates:
        record, _ = disturbed(updates, lambda: os.kill(pid_of_rank(1), signal.SIGSTOP))
    assert record.status == "hung"
    assert record.message.endswith(f"worker 1 (rank 1) on {HERE}, suspended (SIGSTOP)")
    assert left_over() == []


@pytest.mark.slow
def test_a_port_taken_from_the_first_worker_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as other:

        def choose(address: str, wanted: int | None = None) -> int:
            if wanted is not None:
                return free_port(address, wanted)
            chosen.append(free_port(address) if chosen else other.getsockname()[1])
            return chosen[-1]

        monkeypatch.setattr(launch.remote.agent, "free_port", choose)
        (record,) = measured(tmp_path, two(), deadlines=Deadlines())
    assert (record.status, len(chosen)) == ("ok", 2), record.message


@pytest.mark.slow
def test_a_worker_that_diverges_fails_the_point(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, two(lr=1e20, windows=50), deadlines=Deadlines())
    assert record.status == "failed"
    assert "smaller --lr" in record.message
    assert left_over() == []
