"""Networks in PyTorch have the arrays, the scores and the gradients of MXNet's."""

from typing import Any

import numpy as np
import pytest

from bench.networks import NETWORKS, named
from tests.support.repeats import slow
from tests.support.training.networks import ROWS, Row

pytestmark = pytest.mark.mxnet
torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")


def in_torch(name: str, image_shape: tuple[int, ...], classes: int) -> Any:
    from bench.networks.torch.catalog import shaped  # noqa: PLC0415

    family, layers = named(name)
    return shaped(family, num_classes=classes, num_layers=layers, image_shape=image_shape)


def in_mxnet(name: str, image_shape: tuple[int, ...], classes: int) -> Any:
    """Return the network with the shapes of its arrays; the values are not made."""
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    family, layers = named(name)
    net = NETWORKS[family].build(num_classes=classes, num_layers=layers, image_shape=image_shape)
    net.infer_shape(mx.nd.zeros((1, *image_shape)))
    return net


def shapes(net: Any) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the sorted shapes of trained arrays and of running averages."""
    from bench.networks.torch.catalog import arrays, averages  # noqa: PLC0415

    if isinstance(net, torch.nn.Module):
        groups = [[one for _, one in group] for group in (arrays(net), averages(net))]
    else:
        every = net.collect_params().values()
        groups = [[one for one in every if (one.grad_req == "null") == kept] for kept in (0, 1)]
    trained, kept = (sorted(tuple(one.shape) for one in group) for group in groups)
    return trained, kept


TINY = Row("tiny", (3, 64, 64), 1000, (90_504, 8, 0), "")


def is_deep(row: Row) -> bool:
    """Whether it is a deep variant of a network that others build with the same code."""
    _, arrays, _ = row.counts
    return arrays > 250 and row.name not in {"resnet-101", "resnet-152", "inception-v3"}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            marks=[pytest.mark.slow] * is_deep(row),
            id=f"{row.name}-at-{row.image_shape[1]}",
        )
        for row in [TINY, *ROWS]
    ],
)
def test_counts_of_values_arrays_and_averages_are_upstreams(row: Row) -> None:
    trained, kept = shapes(in_torch(row.name, row.image_shape, row.classes))
    values = sum(int(np.prod(shape)) for shape in trained)
    assert (values, len(trained), sum(shape[0] for shape in kept)) == row.counts


@pytest.mark.parametrize("name", [*NETWORKS, "resnet-18", "resnet-101", "resnet-152"])
def test_shapes_of_arrays_are_those_of_mxnets(name: str) -> None:
    shape = NETWORKS[named(name)[0]].image_shape
    assert shapes(in_torch(name, shape, 1000)) == shapes(in_mxnet(name, shape, 1000))


def filled(name: str, image_shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """Return the networks of both engines with equal values, and two images."""
    from bench.networks.torch.catalog import initialized  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    theirs = in_mxnet(name, image_shape, 10)
    theirs.initialize()
    ours = initialized(in_torch(name, image_shape, 10), initializer="he", seed=1)
    state = {key: one for key, one in ours.state_dict().items() if "num_batches" not in key}
    draw = np.random.RandomState(0)
    parameters = theirs.collect_params().values()
    for (key, value), parameter in zip(state.items(), parameters, strict=True):
        assert tuple(value.shape) == tuple(parameter.shape), (key, parameter.name)
        found = value.numpy()
        if found.ndim == 1:  # biases, scales, shifts, averages
            low = 0.1 if key.endswith(("var", "weight")) else -0.1
            found = draw.uniform(low, 0.5, found.shape).astype(np.float32)
            value.copy_(torch.from_numpy(found))
        parameter.set_data(mx.nd.from_numpy(found.copy()))
    return theirs, ours, draw.normal(0, 1, (2, *image_shape)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(("tiny", 64), ("alexnet", 72), ("lenet", 28), ("mlp", 28), ("mobilenet", 64)),
        *(("mobilenetv2", 64), ("resnet-18", 64), ("resnet-50", 64), ("resnet-18", 32)),
        *(("resnet-v1-50", 64), ("resnext-50", 64), ("resnet-v1-18", 32), ("resnext-20", 28)),
        *(("googlenet", 64), ("inception-bn", 28), ("inception-v3", 299)),
        *slow(("vgg-11", 32), ("vgg-16", 32), ("resnet-152", 64), ("inception-bn", 224)),
        *slow(("inception-v4", 299), ("inception-resnet-v2", 299)),
    ],
)
def test_equal_values_give_equal_scores(name: str, size: int) -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    theirs, ours, images = filled(name, (NETWORKS[named(name)[0]].image_shape[0], size, size))
    expected = theirs(mx.nd.from_numpy(images)).asnumpy()
    with torch.no_grad():
        found = ours.eval()(torch.from_numpy(images.copy())).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["tiny", "resnet-18"])
def test_equal_values_give_equal_gradients(name: str) -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    theirs, ours, images = filled(name, (3, 64, 64))
    labels = np.array([1, 7])
    with mx.autograd.record():
        scores = theirs(mx.nd.from_numpy(images))
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(
            scores, mx.nd.from_numpy(labels.astype(np.float32))
        ).mean()
    loss.backward()
    found = torch.nn.functional.cross_entropy(
        ours.train()(torch.from_numpy(images.copy())), torch.from_numpy(labels)
    )
    found.backward()
    assert found.item() == pytest.approx(loss.asscalar(), rel=1e-5)
    trained = [one for one in theirs.collect_params().values() if one.grad_req != "null"]
    for (key, value), parameter in zip(ours.named_parameters(), trained, strict=True):
        expected = parameter.grad().asnumpy()
        largest = max(float(np.abs(expected).max()), 1e-6)
        np.testing.assert_allclose(
            value.grad.numpy(), expected, rtol=1e-2, atol=1e-3 * largest, err_msg=key
        )


@pytest.mark.parametrize(
    ("initializer", "spread"),
    [
        *(("normal", 0.01), ("uniform", 0.07 / 3**0.5), ("one", 0.0), ("zero", 0.0)),
        *(("he", (2 / 288) ** 0.5), ("xavier", (2 / 864) ** 0.5)),
        *(("msra", (4 / (1 + 0.25**2) / 864) ** 0.5), ("orthogonal", 1.414 / 288**0.5)),
    ],
)
def test_first_weights_have_the_spread_of_mxnets_initializer(
    initializer: str, spread: float
) -> None:
    from bench.networks.torch.catalog import initialized  # noqa: PLC0415

    def weight(seed: int) -> Any:
        net = initialized(in_torch("tiny", (3, 64, 64), 10), initializer=initializer, seed=seed)
        assert all((one == 0).all() for key, one in net.state_dict().items() if "bias" in key)
        return net[6].weight.detach()

    found = weight(1)
    assert tuple(found.shape) == (64, 32, 3, 3)
    assert found.mean().item() == pytest.approx(float(initializer == "one"), abs=6 * spread / 135)
    assert found.std().item() == pytest.approx(spread, rel=6 / (2 * found.numel()) ** 0.5)
    assert torch.equal(found, weight(1))
    assert torch.equal(found, weight(2)) is (initializer in {"one", "zero"})
