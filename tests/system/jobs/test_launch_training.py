"""mxscale's training job under a launcher that starts one program everywhere."""

import re
import subprocess
import sys

import pytest

from launch.hosts import ROOT

pytestmark = [pytest.mark.mxnet, pytest.mark.program]


def test_one_command_is_all_roles_and_each_worker_prints_its_own_part_of_a_global_batch() -> None:
    ours = ["-m", "bench.train_imagenet", "--network=tiny", "--image-shape=3,32,32"]
    ours += ["--benchmark=1", "--kv-store=dist_sync", "--windows=3", "--global-batch=17"]
    launcher = ["-m", "launch.launch", "-n", "2", "-s", "1", "--launcher", "local", sys.executable]
    done = subprocess.run(
        [sys.executable, *launcher, *ours],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for rank, batch in ((0, 9), (1, 8)):
        (line,) = [one for one in done.stdout.splitlines() if f"trained by rank {rank}: " in one]
        assert f"images/s trained by rank {rank}: {3 * batch} images in 3 windows" in line
        assert line.endswith(f"worker batch {batch}") or f"worker batch {batch}; " in line
    assert "on worker" not in done.stdout


LENET = ["-m", "bench.train_imagenet", "--network=lenet", "--num-classes=10", "--batch-size=8"]
LENET += ["--benchmark=1", "--windows=2", "--steps-per-window=10", "--lr=0.001"]


def lenet(*options: str) -> subprocess.CompletedProcess[str]:
    """Train LeNet with two workers and two servers."""
    launcher = ["-m", "launch.launch", "-n", "2", "--launcher", "local", *options, sys.executable]
    return subprocess.run(
        [sys.executable, *launcher, *LENET, "--kv-store=dist_sync"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_p3_trains_the_same_weights_as_servers_that_update() -> None:
    runs = [lenet(*options) for options in ((), ("--p3",))]
    assert [one.returncode for one in runs] == [0, 0], runs
    plain, p3 = (sorted(re.findall(r"(rank \d) epoch .*loss (\S+)", one.stdout)) for one in runs)
    assert len(plain) == 2
    assert plain == p3
