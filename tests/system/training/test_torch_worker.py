"""Steps of engine `torch` are those of the global batch."""

from typing import Any

import numpy as np
import pytest

from bench.errors import SpecError
from bench.training.options import parse
from tests.support.training.ddp import TINY, run_workers, steps

pytestmark = pytest.mark.mxnet
torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")

COMPRESSED = ("fp16", "powersgd")


@pytest.fixture(scope="module")
def together() -> dict[str, list[dict[str, Any]]]:
    """Return what two workers gave, by how they trained."""
    lines = {
        "even": "--global-batch 8",
        "odd": "--global-batch 7",
        **{kind: f"--global-batch 8 --gc-type {kind}" for kind in COMPRESSED},
    }
    found = run_workers(*(f"{TINY} {line}" for line in lines.values()))
    return dict(zip(lines, found, strict=True))


@pytest.mark.parametrize(("kind", "whole"), [("even", 8), ("odd", 7)])
def test_two_workers_train_as_one_with_their_batch(
    together: dict[str, list[dict[str, Any]]], kind: str, whole: int
) -> None:
    alone = steps(f"{TINY} --kv-store none --batch-size {whole}")
    first, second = together[kind]
    assert first["hash"] == second["hash"]
    both = np.add(first["losses"], second["losses"])
    np.testing.assert_allclose(both, alone["losses"], rtol=1e-5)
    np.testing.assert_allclose(first["weights"], alone["weights"], rtol=1e-4, atol=1e-7)
    assert alone["losses"][-1] < alone["losses"][0]


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_gradients_leave_equal_weights_on_all_workers(
    together: dict[str, list[dict[str, Any]]], kind: str
) -> None:
    first, second = together[kind]
    assert first["hash"] == second["hash"]
    assert first["hash"] != together["even"][0]["hash"]
    np.testing.assert_allclose(first["losses"], together["even"][0]["losses"], rtol=0.2)


def test_workers_agree_outside_of_training(
    together: dict[str, list[dict[str, Any]]],
) -> None:
    for rank, one in enumerate(together["even"]):
        assert one["rank"] == rank
        assert one["sums"] == [1, 2**53]
        assert one["any"] is True
        assert one["told"] == 0.5


@pytest.mark.parametrize("words", ["--dtype bfloat16", "--dtype float16", "--channels-last 1"])
def test_options_of_the_arithmetic_change_the_loss_by_rounding_only(words: str) -> None:
    line = f"{TINY} --kv-store none --batch-size 8"
    plain, other = steps(line), steps(f"{line} {words}")
    np.testing.assert_allclose(other["losses"], plain["losses"], rtol=2e-2)
    assert (other["losses"] == plain["losses"]) is False or "last" in words


def test_an_update_is_that_of_mxnets_sgd() -> None:
    """Momentum and decay as in MXNet; biases have no decay."""
    from bench.training.torch.rendezvous import Job  # noqa: PLC0415
    from bench.training.torch.worker import build_step  # noqa: PLC0415

    line = f"{TINY} --kv-store none --batch-size 2 --lr 0.1 --mom 0.9 --wd 0.5"
    step = build_step(parse(line.split()), Job(), 2)
    named = dict(step.net.named_parameters())
    weight, bias = named["0.weight"], named["0.bias"]
    with torch.no_grad():
        bias.fill_(1)
    before = weight.detach().clone()
    for one in named.values():
        one.grad = torch.full_like(one, 0.25)
    step.update()
    moved = -0.1 * (0.25 + 0.5 * before)
    torch.testing.assert_close(weight.detach(), before + moved)
    torch.testing.assert_close(bias.detach(), torch.full_like(bias, 1 - 0.025))
    middle = weight.detach().clone()
    for one in named.values():
        one.grad = torch.full_like(one, 0.25)
    step.update()
    torch.testing.assert_close(weight.detach(), middle + 0.9 * moved - 0.1 * (0.25 + 0.5 * middle))


def test_a_probe_changes_no_weight_and_leaves_no_gradient() -> None:
    from bench.training.torch.rendezvous import Job  # noqa: PLC0415
    from bench.training.torch.worker import build_step  # noqa: PLC0415

    step = build_step(parse(f"{TINY} --kv-store none --batch-size 2".split()), Job(), 2)
    before = step.digest()
    step.compute(torch.zeros(2, 3, 32, 32), torch.tensor([1, 2]))
    step.update()
    assert step.digest() == before


def test_images_that_are_too_small_are_one_error() -> None:
    line = f"{TINY} --kv-store none --batch-size 2 --network alexnet --image-shape 3,32,32"
    with pytest.raises(SpecError, match=r"--image-shape: expected larger images for alexnet, got"):
        steps(line)


def test_gpus_without_a_build_for_them_are_one_error() -> None:
    if torch.cuda.is_available():
        pytest.skip("needs a build of PyTorch for CPU, or no GPU")
    with pytest.raises(SpecError, match=r"^--gpus: PyTorch 2.* finds no GPU"):
        steps(f"{TINY} --kv-store none --batch-size 2 --gpus 0")


@pytest.mark.parametrize(
    ("gpus", "kinds"),
    [
        ([], "gloo"),
        ([b"GPU-1", b"GPU-2"], "cpu:gloo,cuda:nccl"),
        ([b"GPU-1", b"GPU-1"], "cpu:gloo,cuda:gloo"),  # NCCL refuses two workers on one GPU
    ],
)
def test_workers_that_share_a_gpu_are_connected_by_gloo(gpus: list[bytes], kinds: str) -> None:
    from bench.training.torch.rendezvous import backends  # noqa: PLC0415 - needs PyTorch

    assert backends(gpus) == kinds
