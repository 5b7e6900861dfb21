"""Jobs with signed commands train as jobs of MXNet's own servers do, bit for bit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from launch.hosts import ROOT
from tests.support.training.workers import weights

pytestmark = [pytest.mark.mxnet, pytest.mark.program]
# MXNet's own server, and workers that send it what it expects.
UNSIGNED = (
    "import os\n"
    "if os.environ['DMLC_ROLE'] != 'worker': import bench.training.mxnet_shim\n"
    "from bench import train_imagenet\n"
    "from bench.training.mxnet import kvstore\n"
    "kvstore.sign_optimizer = lambda store: None\n"
    "train_imagenet.main()\n"
)


def trained(prefix: Path, program: list[str], *words: str) -> None:
    """Run two workers under the launcher; return their checkpoint."""
    ours = ["--network=tiny", "--image-shape=3,32,32", "--num-classes=10", "--benchmark=1"]
    ours += ["--kv-store=dist_sync", "--batch-size=4", "--windows=9", f"--model-prefix={prefix}"]
    launcher = ["-m", "launch.launch", "-n", "2", "-s", "2", "--launcher", "local"]
    done = subprocess.run(
        [sys.executable, *launcher, sys.executable, *program, *ours, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "refused" not in done.stdout


# Rounded, unmarked: tests/system/training/test_module_steps.py compares the same two servers.
@pytest.mark.slow
@pytest.mark.parametrize("words", [("--mom=0.9", "--lr=0.2"), ("--optimizer=adam", "--lr=0.01")])
def test_signed_and_unsigned_jobs_end_with_the_same_weights(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    trained(tmp_path / "signed", ["-m", "bench.train_imagenet"], *words)
    trained(tmp_path / "unsigned", ["-c", UNSIGNED], *words)
    signed, unsigned = weights(tmp_path / "signed"), weights(tmp_path / "unsigned")
    assert signed.keys() == unsigned.keys()
    for name, one in signed.items():
        np.testing.assert_array_equal(one, unsigned[name])
