"""Networks are upstream's: operators, arrays, values, work, scores, first weights.

Figures are those of upstream's own symbols (MXNet 1.9.1, example/image-classification/symbols),
bound with the same weights. Upstream's `_copy` of the images and its SoftmaxOutput are left out.
"""

import json
import math
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from bench import fine_tune
from bench.errors import SpecError
from bench.networks import NETWORKS, named
from bench.networks.stages import stages
from bench.training.options import Options, parse
from bench.trial import make
from launch.remote.code_hash import code_hash
from results.comparison.differences import run_differences
from results.record import Record
from tests.support.repeats import slow
from tests.support.runs.comparisons import quiet, run

pytestmark = pytest.mark.mxnet


class Table(NamedTuple):
    """A network of 1000 classes by upstream, at images of `size` pixels.

    counts     of arrays, of their values, of running averages, of multiplications with addition
    operators  how many of each, in the order of _OPERATORS
    """

    size: int
    counts: tuple[int, int, int, int]
    operators: tuple[int, ...]


_OPERATORS = (
    *("Convolution", "BatchNorm", "Activation", "Pooling", "elemwise_add", "Concat", "LRN"),
    *("Dropout", "FullyConnected"),
)


UPSTREAM = {
    "alexnet": Table(224, (16, 50_844_008, 0, 1_009_945_728), (5, 0, 7, 3, 0, 0, 2, 2, 3)),
    "inception-v3": Table(
        299, (284, 23_834_568, 34_432, 5_713_216_096), (94, 94, 94, 14, 0, 11, 0, 0, 1)
    ),
    "mobilenet": Table(224, (83, 4_231_976, 21_888, 568_740_352), (27, 27, 27, 1, 0, 0, 0, 0, 1)),
    "vgg-11": Table(224, (22, 132_863_336, 0, 7_609_090_048), (8, 0, 10, 5, 0, 0, 0, 2, 3)),
    "vgg-13": Table(224, (26, 133_047_848, 0, 11_308_466_176), (10, 0, 12, 5, 0, 0, 0, 2, 3)),
    "vgg-16": Table(224, (32, 138_357_544, 0, 15_470_264_320), (13, 0, 15, 5, 0, 0, 0, 2, 3)),
    "vgg-19": Table(224, (38, 143_667_240, 0, 19_632_062_464), (16, 0, 18, 5, 0, 0, 0, 2, 3)),
    "resnet-18": Table(224, (61, 11_691_950, 7_942, 1_826_918_400), (21, 19, 18, 2, 8, 0, 0, 0, 1)),
    "resnet-34": Table(
        224, (109, 21_800_110, 15_366, 3_676_606_464), (37, 35, 34, 2, 16, 0, 0, 0, 1)
    ),
    "resnet-50": Table(
        224, (157, 25_549_486, 45_574, 4_089_184_256), (53, 51, 50, 2, 16, 0, 0, 0, 1)
    ),
    "resnet-101": Table(
        224, (310, 44_541_614, 97_798, 7_801_405_440), (104, 102, 101, 2, 33, 0, 0, 0, 1)
    ),
    "resnet-152": Table(
        224, (463, 60_185_262, 143_878, 11_513_626_624), (155, 153, 152, 2, 50, 0, 0, 0, 1)
    ),
}
# Images of up to 32 pixels keep their size before the first stage; up to 28, there are three.
UPSTREAM_SMALL = {
    "resnet-18": Table(32, (59, 11_684_142, 7_814, 560_123_904), (21, 18, 17, 1, 8, 0, 0, 0, 1)),
    "resnet-34": Table(
        32, (107, 21_792_302, 15_238, 1_164_103_680), (37, 34, 33, 1, 16, 0, 0, 0, 1)
    ),
    "resnet-50": Table(
        32, (155, 25_541_678, 45_446, 1_299_857_408), (53, 50, 49, 1, 16, 0, 0, 0, 1)
    ),
    "resnet-101": Table(
        32, (308, 44_533_806, 97_670, 2_512_011_264), (104, 101, 100, 1, 33, 0, 0, 0, 1)
    ),
    "resnet-152": Table(
        32, (461, 60_177_454, 143_750, 3_724_165_120), (155, 152, 151, 1, 50, 0, 0, 0, 1)
    ),
}
UPSTREAM_CIFAR = {
    "resnet-50": Table(28, (154, 822_974, 3_622, 85_701_888), (52, 50, 49, 1, 24, 0, 0, 0, 1)),
    "resnet-152": Table(
        28, (460, 2_475_646, 11_238, 269_948_160), (154, 152, 151, 1, 75, 0, 0, 0, 1)
    ),
}
TABLES = [
    pytest.param(name, found, id=f"{name}-at-{found.size}")
    for group in (UPSTREAM, UPSTREAM_SMALL, UPSTREAM_CIFAR)
    for name, found in group.items()
]


# One network of each family; test_upstream_graphs.py has the graphs of the second line.
FAMILIES = ("alexnet", "inception-v3", "mobilenet", "resnet-18", "vgg-11")
OTHERS = ("googlenet", "lenet", "mlp", "mobilenetv2", "resnet-v1-18", "resnext-18")
LARGE = ("inception-bn", "inception-v4", "inception-resnet-v2")
NAMED = ("normal", "uniform", "xavier", "he", "msra")


def with_code(record: Record, code: str) -> Record:
    return replace(record, identity=replace(record.identity, code_hash=code))


def built(name: str, size: int, classes: int = 1000) -> Any:
    family, layers = named(name)
    network = NETWORKS[family]
    return network.build(num_classes=classes, num_layers=layers, image_shape=(3, size, size))


def symbol_of(net: Any) -> Any:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    return net(mx.sym.var("data"))


@cache
def symbol_at(name: str, size: int) -> Any:
    """Return the network's symbol at images of this size; it is only read."""
    return symbol_of(built(name, size))


def nodes_of(symbol: Any) -> list[dict[str, Any]]:
    return list(json.loads(symbol.tojson())["nodes"])


def shapes_of(symbol: Any, size: int) -> tuple[dict[str, Any], list[Any]]:
    """Return shapes of arguments, by name in upstream's order, and of averages."""
    arguments, _, averages = symbol.infer_shape(data=(1, 3, size, size))
    shapes = dict(zip(symbol.list_arguments(), arguments, strict=True))
    del shapes["data"]
    return shapes, averages


def multiply_adds(symbol: Any, size: int) -> int:
    """Count multiply-adds of convolutions and dense layers for one image."""
    inside = symbol.get_internals()
    _, outputs, _ = inside.infer_shape(data=(1, 3, size, size))
    made = dict(zip(inside.list_outputs(), outputs, strict=True))
    shapes, _ = shapes_of(symbol, size)
    nodes, work = nodes_of(symbol), 0
    for node in nodes:
        if node["op"] in {"Convolution", "FullyConnected"}:
            weight = shapes[nodes[node["inputs"][1][0]]["name"]]
            work += math.prod(made[f"{node['name']}_output"][1:]) * math.prod(weight[1:])
    return work


@pytest.mark.parametrize(("name", "upstream"), TABLES)
def test_arrays_values_and_multiply_adds_are_upstreams(name: str, upstream: Table) -> None:
    symbol = symbol_at(name, upstream.size)
    shapes, averages = shapes_of(symbol, upstream.size)
    values = sum(map(math.prod, shapes.values()))
    work = multiply_adds(symbol, upstream.size)
    assert (len(shapes), values, sum(map(math.prod, averages)), work) == upstream.counts


@pytest.mark.parametrize(("name", "upstream"), TABLES)
def test_operators_are_upstreams(name: str, upstream: Table) -> None:
    found = Counter(node["op"] for node in nodes_of(symbol_at(name, upstream.size)))
    # What flattens moves no value; Gluon's full connection does so by itself.
    del found["null"], found["Flatten"]
    expected = dict(zip(_OPERATORS, upstream.operators, strict=True))
    assert found == {operator: count for operator, count in expected.items() if count}


@pytest.mark.parametrize("name", [*UPSTREAM, "tiny"])
def test_every_array_is_exchanged_as_in_upstreams_module(name: str) -> None:
    made = built(name, 224).collect_params()
    kept = {one for one, value in made.items() if value.grad_req == "null"}
    assert kept == {one for one in made if "running" in one}


@pytest.mark.parametrize(
    ("name", "epsilon", "fixed"),
    [
        ("resnet-18", 2e-5, 1),
        ("resnet-50", 2e-5, 1),
        ("inception-v3", 1e-3, 94),
        ("mobilenet", 1e-3, 27),
    ],
)
def test_normalizations_have_upstreams_epsilon_and_fixed_scales(
    name: str, epsilon: float, fixed: int
) -> None:
    nodes = nodes_of(symbol_at(name, UPSTREAM[name].size))
    found = [node["attrs"] for node in nodes if node["op"] == "BatchNorm"]
    assert {float(one["eps"]) for one in found} == {epsilon}
    assert {float(one.get("momentum", 0.9)) for one in found} == {0.9}
    assert [one["fix_gamma"] for one in found].count("True") == fixed
    assert found[0]["fix_gamma"] == "True"


def test_inceptions_last_block_takes_the_largest_and_nothing_is_dropped() -> None:
    nodes = nodes_of(symbol_at("inception-v3", 299))
    kinds = [node["attrs"]["pool_type"] for node in nodes if node["op"] == "Pooling"]
    assert kinds[-2:] == ["max", "avg"]
    assert Counter(kinds) == {"max": 5, "avg": 9}
    assert "Dropout" not in {node["op"] for node in nodes}


def weights_by_position(symbol: Any, size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return arguments and averages that depend only on position and shape."""
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    shapes, averages = shapes_of(symbol, size)
    names = symbol.list_auxiliary_states()
    return tuple(  # type: ignore[return-value]
        {
            name: mx.nd.from_numpy(values(name, shape, position).astype(np.float32))
            for position, (name, shape) in enumerate(group.items())
        }
        for group in (shapes, dict(zip(names, averages, strict=True)))
    )


def values(name: str, shape: tuple[int, ...], position: int) -> Any:
    draw = np.random.RandomState(position)
    if name.endswith("weight"):
        return draw.normal(0, math.sqrt(2 / math.prod(shape[1:])), shape)
    if name.endswith("gamma"):
        return draw.uniform(0.1, 0.5, shape)
    return draw.uniform(0.5, 1.5, shape) if name.endswith("var") else draw.normal(0, 0.1, shape)


def loss_of(net: Any, size: int) -> float:
    """Return the mean cross entropy of two images, of classes 1 and 7 of 10."""
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    symbol = symbol_of(net)
    images = np.random.RandomState(0).normal(0, 1, (2, 3, size, size)).astype(np.float32)
    executor = symbol.simple_bind(mx.cpu(), grad_req="null", data=images.shape)
    executor.copy_params_from(*weights_by_position(symbol, size))
    scores = executor.forward(is_train=False, data=mx.nd.from_numpy(images))[0].asnumpy()
    scores = scores.astype(np.float64)
    sums = np.log(np.exp(scores).sum(axis=1))
    return float(np.mean(sums - scores[[0, 1], [1, 7]]))


@pytest.mark.parametrize(
    ("name", "size", "upstream"),
    [
        ("alexnet", 72, 5.1046671),
        ("inception-v3", 299, 10.0285881),
        ("mobilenet", 224, 3.8841535),
        ("resnet-18", 64, 2.2632158),
        ("resnet-50", 64, 2.2561024),
        *slow(("vgg-11", 32, 4.7962903), ("resnet-34", 64, 2.5028178)),
        *slow(("resnet-152", 64, 2.3378149)),
        ("resnet-18", 32, 2.3853612),
        ("resnet-50", 28, 2.4857825),
    ],
)
def test_the_same_weights_give_upstreams_loss(name: str, size: int, upstream: float) -> None:
    assert loss_of(built(name, size, classes=10), size) == pytest.approx(upstream, rel=1e-6)


def _compose(block: Any) -> None:
    if hasattr(block, "composed"):
        block.composed = True
    for child in block._children.values():
        _compose(child)


def test_alexnets_simple_operators_on_cpu_give_upstreams_loss() -> None:
    net = built("alexnet", 72, classes=10)
    _compose(net)
    found = Counter(node["op"] for node in nodes_of(symbol_of(net)))
    del found["null"]
    assert "LRN" not in found
    assert sum(found.values()) == 59  # as docs/reference/train-imagenet-differences.md states
    assert sum(UPSTREAM["alexnet"].operators) + 2 == 24  # with what flattens, and SoftmaxOutput
    assert loss_of(net, 72) == pytest.approx(5.1046671, rel=1e-6)


# Weights do not depend on the image, full connections of alexnet and vgg apart.
_SMALLEST = {"alexnet": 72, "vgg": 32, "lenet": 28, "mlp": 28, "inception-bn": 224}
_SMALLEST |= dict.fromkeys(("inception-v3", "inception-v4", "inception-resnet-v2"), 299)


def options(name: str, *words: str) -> Options:
    size = _SMALLEST.get(named(name)[0], 64)
    return parse(
        f"--network {name} --image-shape 3,{size},{size} --batch-size 2 --benchmark 1 --windows 1 "
        f"--num-classes 10 {' '.join(words)}".split()
    )


def first_arrays(name: str, *words: str) -> dict[str, Any]:
    from bench.training.mxnet.worker import build_network  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    made = build_network(options(name, *words), [mx.cpu()]).collect_params()
    return {one: value.data().asnumpy() for one, value in made.items()}


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return fan-in and fan-out as MXNet's initializers count them."""
    around = math.prod(shape[2:])
    return shape[1] * around, shape[0] * around


def spread(initializer: str, shape: tuple[int, ...]) -> float:
    """Return the standard deviation of a weight by the initializer's definition."""
    read, reading = fans(shape)
    mean = (read + reading) / 2
    return {
        "normal": 0.01,
        "uniform": 0.07 / math.sqrt(3),
        "xavier": math.sqrt(1 / mean),
        "he": math.sqrt(2 / read),
        "msra": math.sqrt(2 / (1 + 0.25**2) / mean),
        "zero": 0.0,
        "one": 0.0,
    }[initializer]


def check_first_arrays(arrays: dict[str, Any], initializer: str) -> None:
    for name, found in arrays.items():
        if not name.endswith("weight"):
            expected = 1.0 if name.endswith(("gamma", "var")) else 0.0
            assert (found == expected).all(), name
            continue
        expected = spread(initializer, found.shape)
        assert found.mean() == pytest.approx(
            float(initializer == "one"), abs=6 * expected / math.sqrt(found.size)
        ), name
        assert found.std() == pytest.approx(expected, rel=6 / math.sqrt(2 * found.size)), name


@pytest.mark.parametrize(
    "name",
    ["tiny", *FAMILIES, *OTHERS, *slow(*LARGE, *(one for one in UPSTREAM if one not in FAMILIES))],
)
def test_the_default_initializer_is_upstreams_for_each_network(name: str) -> None:
    family, _ = named(name)
    upstream = {"alexnet": "normal", "vgg": "xavier"}.get(family, "he")
    check_first_arrays(first_arrays(name), upstream)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("initializer", ["one", *slow("zero")])
def test_an_initializer_acts_on_every_network(name: str, initializer: str) -> None:
    arrays = first_arrays(name, "--initializer", initializer)
    check_first_arrays(arrays, initializer)
    weights = [found for one, found in arrays.items() if one.endswith("weight")]
    assert {float(value) for found in weights for value in np.unique(found)} == {
        float(initializer == "one")
    }


@pytest.mark.parametrize(
    ("name", "initializer"),
    [
        *(("tiny", one) for one in NAMED),
        *(("resnet-18", one) for one in ("uniform", "msra")),
        ("vgg-11", "xavier"),
        *slow(*(("resnet-18", one) for one in ("normal", "xavier", "he"))),
        *slow(*(("vgg-11", one) for one in NAMED if one != "xavier")),
    ],
)
def test_an_initializer_that_is_named_is_the_one_taken(name: str, initializer: str) -> None:
    check_first_arrays(first_arrays(name, "--initializer", initializer), initializer)


@pytest.mark.parametrize("name", ["tiny", *slow("mobilenet")])
def test_orthogonal_weights_are_so(name: str) -> None:
    for one, found in first_arrays(name, "--initializer", "orthogonal").items():
        if one.endswith("weight"):
            rows = found.reshape(len(found), -1).astype(np.float64)
            rows = rows if rows.shape[0] <= rows.shape[1] else rows.T
            np.testing.assert_allclose(rows @ rows.T, 1.414**2 * np.eye(len(rows)), atol=1e-4)


def test_the_seed_decides_first_weights() -> None:
    same, again, other = (first_arrays("tiny", "--seed", seed) for seed in ("1", "1", "2"))
    assert all((same[name] == again[name]).all() for name in same)
    assert not any((same[name] == other[name]).any() for name in same if name.endswith("weight"))


def test_resnet_18s_first_step_is_modules() -> None:
    from bench.training.mxnet.inputs import synthetic_batches  # noqa: PLC0415
    from bench.training.mxnet.worker import build_worker, gradients  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    worker = build_worker(options("resnet-18", "--batch-size", "8"))
    batch = next(synthetic_batches(worker.options, worker.contexts, 0))
    (data,), (label,) = batch
    net = worker.net
    symbol = mx.sym.SoftmaxOutput(symbol_of(net), name="softmax")
    model = mx.mod.Module(symbol)
    model.bind([("data", data.shape)], [("softmax_label", label.shape)])
    weights = {name: value.data().copy() for name, value in net.collect_params().items()}
    averages = {name: weights[name] for name in symbol.list_auxiliary_states()}
    model.init_params(arg_params=weights, aux_params=averages, allow_extra=True)
    model.forward(mx.io.DataBatch(data=[data], label=[label]), is_train=True)
    chances = model.get_outputs()[0].asnumpy().astype(np.float64)
    theirs = -np.log(chances[np.arange(len(chances)), label.asnumpy().astype(int)]).mean()
    (losses,) = gradients(worker, batch)
    assert losses.asnumpy().mean() == pytest.approx(theirs, rel=1e-6)


def test_a_fixed_scale_does_not_act_and_has_a_gradient_of_zeros() -> None:
    from bench.training.mxnet.inputs import synthetic_batches  # noqa: PLC0415
    from bench.training.mxnet.worker import build_worker, gradients  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    worker = build_worker(options("mobilenet"))
    batch = next(synthetic_batches(worker.options, worker.contexts, 0))
    scales = [
        value for name, value in worker.net.collect_params().items() if name.endswith("gamma")
    ]
    (before,) = gradients(worker, batch)
    assert len(scales) == 27
    assert not any(scale.grad().asnumpy().any() for scale in scales)
    for scale in scales:
        scale.set_data(mx.nd.full(scale.shape, 3))
    (after,) = gradients(worker, batch)
    np.testing.assert_array_equal(before.asnumpy(), after.asnumpy())


def test_a_resnet_that_upstream_has_not_for_small_images_is_refused_in_one_line() -> None:
    for name in ("resnet-18", "resnet-34", "resnet-101"):
        with pytest.raises(SpecError, match=r"a depth of 20, .* or 164.*height of 28"):
            parse(f"--network {name} --image-shape 3,28,28 --benchmark 1 --windows 1".split())
    fields = {
        "network": "resnet",
        "num_layers": 18,
        "batch_per_device": 4,
        "image_shape": [3, 20, 20],
    }
    with pytest.raises(SpecError, match=r"resnet-18.*height of 20") as raised:
        make(fields)
    assert "\n" not in str(raised.value)
    assert make(fields | {"image_shape": [3, 32, 32]}).model.num_layers == 18
    assert make(fields | {"num_layers": 50}).model.num_layers == 50


def test_reading_alone_builds_no_network_and_takes_any_size() -> None:
    words = "--network resnet-18 --image-shape 3,28,28 --test-io 1 --data-train x.rec"
    assert parse(words.split()).image_shape == (3, 28, 28)


@pytest.mark.parametrize("height", [29, 32, 33])
def test_images_of_29_pixels_and_more_have_four_stages(height: int) -> None:
    found = stages("resnet", 18, height)
    assert (found.units, found.channels[0]) == ((2, 2, 2, 2), 64)


def test_points_of_other_networks_are_measured_anew_and_compared_as_other_code(
    tmp_path: Path,
) -> None:
    hashes = []
    for name, text in (("before", "classes = 1\n"), ("after", "classes = 2\n")):
        for path in ("__init__", "networks/__init__", "networks/resnet", "train_imagenet"):
            file = tmp_path / name / "bench" / f"{path}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text if path == "networks/resnet" else "")
        file.write_text("from bench.networks import resnet\n")
        hashes.append(code_hash(tmp_path / name))
    old, new = ([with_code(one, code) for one in quiet()] for code in hashes)
    assert old[0].identity != new[0].identity  # so that the old one is not a point done
    a, b = run("a", *old), run("b", *new)
    (found,) = [
        one for one in run_differences(a, b, [(a.rows[0], b.rows[0])]) if one.name == "code"
    ]
    assert [found.a, found.b] == hashes


def test_a_resnet_50_saved_before_has_the_same_names() -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    with mx.name.NameManager():
        ours = built("resnet-50", 224).collect_params()
    with mx.name.NameManager():
        before = mx.gluon.model_zoo.vision.get_resnet(2, 50).collect_params()
    assert sorted(ours) == sorted(before)


def test_a_new_last_layer_begins_as_upstreams_fine_tune_has_it() -> None:
    words = "--pretrained-model alexnet --load-epoch 1 --data-train x.rec"
    found = fine_tune.parse(words.split())
    assert (found.initializer, NETWORKS[found.network].initializer) == ("default", "he")


def test_a_checkpoint_whose_trained_scales_would_not_act_is_refused(tmp_path: Path) -> None:
    from bench.training.mxnet.checkpoint import load  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    image = mx.nd.zeros((1, 3, 64, 64))
    before = mx.gluon.model_zoo.vision.get_mobilenet(1.0, classes=10)
    net = built("mobilenet", 64, classes=10)
    for one in (before, net):
        one.initialize()
        one.hybridize()
        one(image)
    before.export(str(tmp_path / "old"))
    with pytest.raises(
        SpecError, match=r"old-0000.params: expected fixed normalization scales.*got trained ones"
    ):
        load(net, str(tmp_path / "old"), 0)
