"""Every network of upstream: its counts, its graph, and steps of training.

Figures and digests are those of upstream's own symbols (MXNet 1.9.1,
example/image-classification/symbols) without its copy of the images and its SoftmaxOutput. A digest
covers the operators, their parameters and inputs (tests/support/training/graphs.py). The tables of
test_networks.py hold the graphs without one.
"""

import math
from typing import Any

import pytest

from bench.errors import SpecError
from bench.networks import NETWORKS, named
from bench.training.options import parse
from bench.trial import make
from tests.support.repeats import slow
from tests.support.training.graphs import graph_digest
from tests.support.training.networks import ROWS, Row

pytestmark = pytest.mark.mxnet

UNTIL_32 = ("resnet-20", "resnet-110", "resnet-v1-20", "resnet-v1-110")


def built(name: str, image_shape: tuple[int, ...], classes: int) -> Any:
    family, layers = named(name)
    return NETWORKS[family].build(num_classes=classes, num_layers=layers, image_shape=image_shape)


def symbol_of(net: Any) -> Any:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    return net(mx.sym.var("data"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-at-{row.image_shape[1]}")
def test_counts_and_graph_are_upstreams(row: Row) -> None:
    symbol = symbol_of(built(row.name, row.image_shape, row.classes))
    arguments, _, averages = symbol.infer_shape(data=(1, *row.image_shape))
    arrays = dict(zip(symbol.list_arguments(), arguments, strict=True))
    del arrays["data"]
    values = sum(map(math.prod, arrays.values()))
    assert (values, len(arrays), sum(map(math.prod, averages))) == row.counts
    assert graph_digest(symbol) == row.digest or not row.digest


def test_a_digest_changes_with_a_parameter_and_with_an_input() -> None:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    images = mx.sym.var("data")

    def digest(channels: int, **given: Any) -> str:
        first = mx.sym.Convolution(images, kernel=(1, 1), num_filter=channels)
        normal = mx.sym.BatchNorm(first, **given)
        return graph_digest(mx.sym.Concat(first, normal))

    digests = {digest(4), digest(5), digest(4, eps=1e-5), digest(4, fix_gamma=False)}
    assert len(digests) == 4
    assert digest(4, eps=1e-3, momentum=0.9) == digest(4)


def test_the_table_has_every_network_but_the_projects_own() -> None:
    assert {named(row.name)[0] for row in ROWS} == set(NETWORKS) - {"tiny"}
    for family, network in NETWORKS.items():
        depths = {depth for row in ROWS for one, depth in [named(row.name)] if one == family}
        assert depths == {*network.layers} or not network.layers


def words(name: str, size: int, *more: str) -> list[str]:
    channels = NETWORKS[named(name)[0]].image_shape[0]
    shape = f"--image-shape={channels},{size},{size}"
    return ["--network", name, shape, "--num-classes=10", "--benchmark=1", "--windows=1", *more]


@pytest.mark.parametrize("name", UNTIL_32)
def test_depths_of_small_images_are_refused_for_larger_ones(name: str) -> None:
    expected = r"a depth of 18, 34, .* or 269 for images above 28 pixels, got .* height of 32"
    with pytest.raises(SpecError, match=expected):
        parse(words(name, 32))
    family, layers = named(name)
    fields = {"network": family, "num_layers": layers, "batch_per_device": 2}
    with pytest.raises(SpecError, match=expected) as raised:
        make(fields | {"image_shape": [3, 32, 32]})
    assert "\n" not in str(raised.value)
    assert make(fields | {"image_shape": [3, 24, 24]}).model.num_layers == layers


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--network resnet --num-layers 33", "expected one of 18, 34, .* 164, got 33"),
        ("--network mobilenetv2 --num-layers 50", "'mobilenetv2': expected no depth, got 50"),
        ("--network resnext-18 --image-shape 3,32,32", "for images of up to 32 pixels"),
        ("--network resnet-v1-269 --image-shape 3,28,28", "for images of up to 28 pixels"),
        ("--network resnet-2 --image-shape 3,28,28", "got 2"),
        ("--network inception-v5", "did you mean 'inception-v.'.*resnext-{18,34,50,.*164}, vgg"),
    ],
)
def test_a_depth_that_upstream_lacks_is_refused_in_one_line(line: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as raised:
        parse([*line.split(), "--benchmark=1", "--windows=1"])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "name", ["resnet-8", "resnet-26", "resnet-v1-173", "resnext-62", "resnet-200"]
)
def test_small_images_take_any_depth_of_upstreams_rule(name: str) -> None:
    assert parse(words(name, 28)).num_layers == named(name)[1]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(("lenet", 28), ("mlp", 28), ("googlenet", 64), ("inception-bn", 28)),
        *(("mobilenetv2", 32), ("resnet-20", 24), ("resnet-v1-20", 28), ("resnext-20", 32)),
        *slow(("inception-bn", 224), ("inception-v4", 299), ("inception-resnet-v2", 299)),
        *slow(("resnet-v1-50", 64), ("resnext-50", 64), ("resnet-200", 64), ("resnet-164", 28)),
    ],
)
def test_training_changes_the_weights(name: str, size: int) -> None:
    from bench.training.mxnet.backend import train  # noqa: PLC0415

    more = ("--batch-size=2", "--kv-store=local", "--warmup-windows=0")
    one, two = (train(parse(words(name, size, *more, f"--windows={n}"))) for n in (1, 2))
    assert (len(one.windows), len(two.windows)) == (1, 2)
    assert one.weight_hash != two.weight_hash
    assert not one.notes
