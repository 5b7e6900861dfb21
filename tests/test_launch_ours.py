"""Our own training job under a launcher that starts one program everywhere."""

import subprocess
import sys

import pytest

from launch.hosts import ROOT

pytestmark = [pytest.mark.mxnet, pytest.mark.program]


def test_one_command_is_scheduler_servers_and_workers() -> None:
    ours = ["-m", "bench.train_imagenet", "--network=tiny", "--image-shape=3,32,32"]
    ours += ["--benchmark=1", "--kv-store=dist_sync", "--batch-size=4", "--windows=3"]
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
    for rank in (0, 1):
        assert f"images/s trained on worker {rank}: 12 images in 3 windows" in done.stdout
