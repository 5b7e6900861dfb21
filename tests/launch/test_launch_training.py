"""Our own training job under a launcher that starts one program everywhere."""

import subprocess
import sys

import pytest

from launch.hosts import ROOT

pytestmark = [pytest.mark.mxnet, pytest.mark.program]


def launched(*words: str) -> str:
    """What two workers print on stdout."""
    ours = ["-m", "bench.train_imagenet", "--network=tiny", "--image-shape=3,32,32"]
    ours += ["--benchmark=1", "--kv-store=dist_sync", "--windows=3", *words]
    launcher = ["-m", "launch.launch", "-n", "2", "--launcher", "local", sys.executable]
    done = subprocess.run(
        [sys.executable, *launcher, *ours],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_command_is_scheduler_servers_and_workers() -> None:
    printed = launched("--batch-size=4")
    for rank in (0, 1):
        assert f"images/s trained by rank {rank}: 12 images in 3 windows" in printed


def test_each_worker_prints_its_own_batch_of_a_global_batch() -> None:
    printed = launched("--global-batch=17")
    for rank, batch in ((0, 9), (1, 8)):
        line = next(one for one in printed.splitlines() if f"trained by rank {rank}: " in one)
        assert f"{3 * batch} images in 3 windows" in line
        assert line.endswith(f"worker batch {batch}") or f"worker batch {batch}; " in line
    assert "on worker" not in printed
