"""One step of a worker: its arithmetic compared with MXNet's own."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.errors import SpecError
from bench.training.options import Options, parse

pytestmark = pytest.mark.mxnet
WORDS = "--network tiny --batch-size 4 --benchmark 1 --windows 1 --image-shape 3,32,32 --wd 0.01"
OPTIONS = parse(WORDS.split())


def trained(options: Options, *, optimizer: str = "") -> list[Any]:
    """Return weights after three steps, with MXNet's optimizer if one is named."""
    from bench.training.mxnet.inputs import synthetic_batches  # noqa: PLC0415
    from bench.training.mxnet.worker import build_worker, step  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415
    from tests.support.training.workers import values  # noqa: PLC0415

    worker = build_worker(options)
    if optimizer:
        settings = {"learning_rate": options.lr, "momentum": options.mom, "wd": options.wd}
        trainer = mx.gluon.Trainer(worker.net.collect_params(), optimizer, settings, kvstore=None)
        worker = replace(worker, trainer=trainer)
    batches = synthetic_batches(options, worker.contexts, 0)
    for _ in range(3):
        step(worker, next(batches))
    return [*values(worker.net).values()]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_weights_are_those_of_mxnets_own_optimiser(momentum: float) -> None:
    options = replace(OPTIONS, mom=momentum)
    for ours, theirs in zip(trained(options), trained(options, optimizer="sgd"), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7)


def test_gradients_that_were_made_larger_are_made_smaller_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = trained(OPTIONS)
    monkeypatch.setattr("bench.training.mxnet.worker.loss_scale", lambda _: 1024)
    for scaled, value in zip(trained(OPTIONS), plain, strict=True):
        np.testing.assert_allclose(scaled, value, rtol=1e-4, atol=1e-7)


def test_alexnets_normalisation_is_mxnets_own_in_other_operators() -> None:
    from bench.networks import NETWORKS  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    images, slopes = (mx.nd.random.normal(0, 30, (2, 9, 5, 5)) for _ in range(2))
    found: list[Any] = []
    alexnet = NETWORKS["alexnet"].build(num_classes=10, num_layers=0)
    alexnet.apply(lambda one: found.append(one) if hasattr(one, "composed") else None)
    block, results = found[0], []
    for composed in (False, True):
        block.composed = composed
        images.attach_grad()
        with mx.autograd.record():
            outputs = block(images)
        outputs.backward(slopes)
        results.append((outputs.asnumpy(), images.grad.asnumpy()))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_processor_multiplies_float32_as_such() -> None:
    from bench.training.mxnet_shim import mx, rounds_to_tf32  # noqa: PLC0415

    assert not rounds_to_tf32(mx.cpu())


def test_nccl_is_refused_where_mxnet_was_built_without_it() -> None:
    from bench.training.mxnet.kvstore import open_kvstore  # noqa: PLC0415

    with pytest.raises(SpecError, match="built without NCCL"):
        open_kvstore(replace(OPTIONS, kv_store="nccl"))


@pytest.mark.parametrize("network", ["resnet-18", "mobilenet"])
def test_a_step_moves_all_that_validation_normalises_by(network: str) -> None:
    from bench.training.mxnet.inputs import synthetic_batches  # noqa: PLC0415
    from bench.training.mxnet.worker import build_worker, step  # noqa: PLC0415
    from tests.support.training.workers import values  # noqa: PLC0415

    words = f"{WORDS} --network {network} --num-classes 10 --image-shape 3,64,64"
    worker = build_worker(parse(words.split()))
    before = {name: one for name, one in values(worker.net).items() if "running" in name}
    step(worker, next(synthetic_batches(worker.options, worker.contexts, 0)))
    after = values(worker.net)
    assert len(before) >= 38
    assert [name for name, one in before.items() if (after[name] == one).all()] == []
