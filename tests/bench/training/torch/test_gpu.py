"""Steps and batches of engine `torch` on a GPU."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench.training.options import parse
from tests.support.training.ddp import TINY, steps

torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

LINE = f"{TINY} --kv-store none --batch-size 8"


@pytest.fixture
def exact() -> Iterator[None]:
    """Compute in float32 instead of TF32 during a test."""
    kinds = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [kind.allow_tf32 for kind in kinds]
    for kind in kinds:
        kind.allow_tf32 = False
    yield
    for kind, allowed in zip(kinds, before, strict=True):
        kind.allow_tf32 = allowed


def test_a_gpu_trains_as_the_cpu_does(exact: None) -> None:
    cpu, gpu = steps(LINE), steps(f"{LINE} --gpus 0")
    np.testing.assert_allclose(gpu["losses"], cpu["losses"], rtol=1e-4)
    np.testing.assert_allclose(gpu["weights"], cpu["weights"], rtol=1e-3, atol=1e-5)
    assert gpu["losses"][-1] < gpu["losses"][0]


@pytest.mark.parametrize(
    "words", ["--dtype bfloat16", "--dtype float16", "--channels-last 1", "--compile 1"]
)
def test_options_of_the_arithmetic_change_the_loss_by_rounding_only(words: str) -> None:
    plain, other = (steps(f"{LINE} --gpus 0{more}") for more in ("", f" {words}"))
    np.testing.assert_allclose(other["losses"], plain["losses"], rtol=3e-2)
    assert ("dtype" in words) <= (other["losses"] != plain["losses"])


@pytest.mark.parametrize("channels_last", [0, 1])
def test_a_batch_is_copied_before_its_pinned_memory_is_reused(channels_last: int) -> None:
    from bench.training.torch import batches  # noqa: PLC0415 - needs PyTorch

    size, shape = 64, (3, 224, 224)
    options = parse(f"{LINE} --gpus 0 --channels-last {channels_last}".split())
    device = torch.device("cuda", 0)
    large: Any = options.__class__(**vars(options) | {"image_shape": shape, "batch_size": size})
    filled = batches.buffer(large, device, size)
    assert filled.data.is_pinned()
    filled.images[:] = np.random.default_rng(0).random((size, *shape), np.float32)
    filled.labels[:] = np.arange(size)
    expected = filled.images.copy()
    torch.cuda._sleep(200_000_000)  # the copy waits behind 0.1 s of work
    images, labels = batches.load(large, device, filled)
    filled.wait()
    filled.images[:], filled.labels[:] = -1, -1
    np.testing.assert_array_equal(images.cpu().numpy(), expected)
    assert labels.tolist() == list(range(size))
    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert images.is_contiguous(memory_format=layout)
