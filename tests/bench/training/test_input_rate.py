"""The input-pipeline benchmark needs no framework."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

# None makes an import fail, as on a host without these packages.
WITHOUT = (
    "import sys; sys.modules.update(mxnet=None, torch=None); "
    "from bench.train_imagenet import main; main()"
)


@pytest.mark.program
@pytest.mark.parametrize("engine", ["mxnet", "torch"])
def test_images_are_read_without_mxnet_and_pytorch(photographs: Path, engine: str) -> None:
    words = [f"--engine={engine}", "--test-io=1", f"--data-train={photographs / 'train'}"]
    words += ["--image-shape=3,224,224", "--batch-size=8", "--windows=2"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert " images/s read: " in done.stdout
