"""Training equals upstream's Module: losses of ten steps with weight decay."""

import json
import subprocess
import sys

import numpy as np
import pytest

from bench.training.options import parse
from launch.hosts import ROOT
from tests.support.training.module_steps import module, ours

pytestmark = [
    pytest.mark.mxnet,
    pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning"),
]
BASE = "--benchmark=1 --windows=1 --num-classes=10 --kv-store=local"


@pytest.mark.slow
def test_ten_steps_of_alexnet_with_decay_have_modules_losses_to_six_digits() -> None:
    words = "--network=alexnet --image-shape=3,72,72 --batch-size=8 --lr=0.01 --wd=0.05"
    options = parse([*BASE.split(), *words.split()])
    (losses, arrays), (theirs, wanted) = ours(options), module(options)
    np.testing.assert_allclose(losses, theirs, rtol=2e-6)
    for name, array in arrays.items():
        far = np.abs(array - wanted[name]).max() / max(np.abs(wanted[name]).max(), 1e-6)
        assert far < 1e-4, name


def test_the_first_step_of_resnet_18_has_modules_loss_and_weights() -> None:
    words = "--network=resnet-18 --image-shape=3,64,64 --batch-size=8 --lr=0.0003 --wd=0.01"
    options = parse([*BASE.split(), *words.split()])
    (losses, _), (theirs, _) = ours(options, 2), module(options, 2)
    np.testing.assert_allclose(losses[0], theirs[0], rtol=1e-6)
    # Normalized by 8 images, training is chaotic: rounding grows tenfold in a few steps.
    np.testing.assert_allclose(losses[1], theirs[1], rtol=1e-3)


@pytest.mark.slow
@pytest.mark.program
def test_two_workers_over_servers_train_with_decay_as_upstreams_do() -> None:
    words = "--network=tiny --image-shape=3,32,32 --batch-size=8 --lr=0.03 --wd=0.1"
    found, launch = {}, ["-n", "2", "-s", "1", "--launcher", "local"]
    for way in ("ours", "module"):
        job = [sys.executable, "-m", "tests.support.training.module_steps", way]
        job += [*BASE.split(), *words.split(), "--kv-store=dist_sync"]
        done = subprocess.run(
            [sys.executable, "-m", "launch.launch", *launch, *job],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = [one.rpartition("] ")[2] for one in done.stdout.splitlines()]
        found[way] = sorted(json.loads(one) for one in lines if one.startswith("["))
    assert len(found["ours"]) == len(found["module"]) == 2
    np.testing.assert_allclose(found["ours"], found["module"], rtol=2e-6)
