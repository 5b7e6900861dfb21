"""Batches decoded ahead take the memory that --prefetch-buffer allows."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.training.mxnet.backend import device_memory
from bench.trial import make
from tests.support.paths import ROOT

pytestmark = pytest.mark.mxnet
SCRIPT = """
import itertools, sys
from bench.data import loader
from bench.data.partition import whole_data
from bench.training.mxnet import inputs
from bench.training.options import parse
options = parse(sys.argv[1:])
portion = whole_data(options.data_train)
batches = inputs.training_batches(options, portion, loader.shuffled_orders(options, portion))
for _ in itertools.islice(batches, 40):
    pass
# ru_maxrss would include the memory of the process that started this one.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].split()[0])
"""


def peak_kilobytes(photographs: Path, buffer: int) -> int:
    words = ["--network=tiny", "--image-shape=3,224,224", "--batch-size=32", "--test-io=1"]
    words += [f"--data-train={photographs / 'train'}", f"--prefetch-buffer={buffer}"]
    command = [sys.executable, "-c", SCRIPT, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.slow
def test_more_batches_ahead_take_more_memory(photographs: Path) -> None:
    few, many = (peak_kilobytes(photographs, buffer) for buffer in (1, 25))
    batch = 32 * 3 * 224 * 224 * 4 / 1024
    assert 12 * batch < many - few < 25 * batch


def test_a_sweep_varies_it_and_other_points_keep_their_keys() -> None:
    fields = {"mode": "real", "data_train": "t.rec", "batch_per_device": 4}
    usual, more = make(fields), make(fields | {"prefetch_buffer": 8})
    assert make(fields | {"prefetch_buffer": 2}).key == usual.key != more.key


def test_the_fullest_gpu_counts_and_a_cpu_has_none() -> None:
    memory = {0: (30, 100), 1: (10, 100)}
    assert device_memory((0, 1), memory.__getitem__) == {"peak_device_memory_bytes": 90}
    assert device_memory((), memory.__getitem__) == {}
