"""Every network of upstream: its counts, its graph, and steps of training.

Figures and digests are those of upstream's own symbols (MXNet 1.9.1,
example/image-classification/symbols) without its copy of the images and its SoftmaxOutput. A digest
covers the operators, their parameters and inputs (tests/support/training/graphs.py). The tables of
test_networks.py hold the graphs without one.
"""

import math
from typing import Any, NamedTuple

import pytest

from bench.errors import SpecError
from bench.networks import NETWORKS, named
from bench.training.options import parse
from bench.trial import make
from tests.support.repeats import slow
from tests.support.training.graphs import graph_digest

pytestmark = pytest.mark.mxnet

# Name, image shape, classes; parameters, their arrays, values of running averages; digest.
UPSTREAM = """
alexnet              3,224,224   1000   50_844_008   16        0
googlenet            3,224,224   1000    6_998_552  116        0 8d10ae9ad7c8
inception-bn         3,224,224   1000   11_295_240  278   20_032 b0b1b2ae254e
inception-bn         3,28,28       10    1_652_826   78    3_424 0ccaf1e2fd5c
inception-v3         3,299,299   1000   23_834_568  284   34_432
inception-v4         3,299,299   1000   54_967_816  449   63_168 93dcd3213459
inception-resnet-v2  3,299,299   1000   56_009_476  978  152_104 0e0f9d851cdb
lenet                1,28,28       10      431_080    8        0 9983f954fcd1
mlp                  1,28,28       10      109_386    6        0 07d79f9e05e0
mobilenet            3,224,224   1000    4_231_976   83   21_888
mobilenetv2          3,224,224   1000    3_505_960  161   34_176 ec070edb2a67
vgg-11               3,224,224   1000  132_863_336   22        0
vgg-13               3,224,224   1000  133_047_848   26        0
vgg-16               3,224,224   1000  138_357_544   32        0
vgg-19               3,224,224   1000  143_667_240   38        0
resnet-18            3,224,224   1000   11_691_950   61    7_942 913e00444720
resnet-34            3,224,224   1000   21_800_110  109   15_366 7c1f30123f62
resnet-50            3,224,224   1000   25_549_486  157   45_574 2b9a0f621730
resnet-101           3,224,224   1000   44_541_614  310   97_798 f65bfc87d6a8
resnet-152           3,224,224   1000   60_185_262  463  143_878 f99cb5399590
resnet-200           3,224,224   1000   64_666_286  607  168_454 02f1b2965f3b
resnet-269           3,224,224   1000  102_065_838  814  245_254 b3daad346df7
resnet-20            3,28,28       10      272_544   64    1_382 f5b9491d1187
resnet-32            3,28,28       10      466_976  100    2_278 a71d433d5fc7
resnet-44            3,28,28       10      661_408  136    3_174 27d6f51a6c5c
resnet-56            3,28,28       10      855_840  172    4_070 95f4d1e6deb6
resnet-110           3,28,28       10    1_730_784  334    8_102 ba23bd6ffbdd
resnet-164           3,28,28       10    1_703_264  496   24_230 6929855a76ee
resnet-v1-18         3,224,224   1000   11_693_736   65    9_728 91d47f0a68b3
resnet-v1-34         3,224,224   1000   21_801_896  113   17_152 c3c39154c096
resnet-v1-50         3,224,224   1000   25_557_032  161   53_120 db094cf31f4f
resnet-v1-101        3,224,224   1000   44_549_160  314  105_344 1b90ef1a896e
resnet-v1-152        3,224,224   1000   60_192_808  467  151_424 6248c3a7b644
resnet-v1-200        3,224,224   1000   64_673_832  611  176_000 7884cab7a318
resnet-v1-269        3,224,224   1000  102_073_384  818  252_800 9fb41039caf5
resnet-v1-20         3,28,28       10      272_762   68    1_600 636314ca079f
resnet-v1-32         3,28,28       10      467_194  104    2_496 97e26529ed14
resnet-v1-44         3,28,28       10      661_626  140    3_392 19ca0bd0248c
resnet-v1-56         3,28,28       10      856_058  176    4_288 1af0a24dc073
resnet-v1-110        3,28,28       10    1_731_002  338    8_320 243235ab57b9
resnet-v1-164        3,28,28       10    1_704_154  500   25_120 12d4be63fd60
resnext-18           3,224,224   1000   11_693_742   67    9_734 e2b8832ec132
resnext-34           3,224,224   1000   21_801_902  115   17_158 627189254997
resnext-50           3,224,224   1000   25_028_910  163   68_230 52e8cc2468e5
resnext-101          3,224,224   1000   44_177_710  316  137_862 71fb4132793d
resnext-152          3,224,224   1000   59_951_406  469  199_302 982b04050607
resnext-200          3,224,224   1000   64_473_390  613  232_070 08ae9e8303b0
resnext-269          3,224,224   1000  102_172_974  820  334_470 9023acee49af
resnext-20           3,28,28       10      272_736   68    1_574 57ca2bf44fe2
resnext-32           3,28,28       10      467_168  104    2_470 555313ebb2d2
resnext-44           3,28,28       10      661_600  140    3_366 0988d3a3a740
resnext-56           3,28,28       10      856_032  176    4_262 c1ec7e190858
resnext-110          3,28,28       10    1_730_976  338    8_294 3069cbc7d866
resnext-164          3,28,28       10    1_713_280  500   33_158 a15cf2c946ac
resnext-20           3,32,32       10      272_736   68    1_574 57ca2bf44fe2
resnext-110          3,32,32       10    1_730_976  338    8_294 3069cbc7d866
"""
UNTIL_32 = ("resnet-20", "resnet-110", "resnet-v1-20", "resnet-v1-110")


class Row(NamedTuple):
    name: str
    image_shape: tuple[int, ...]
    classes: int
    counts: tuple[int, ...]
    digest: str


def read_row(line: str) -> Row:
    name, shape, classes, *rest = line.split()
    image_shape = tuple(map(int, shape.split(",")))
    digest = rest[3] if len(rest) > 3 else ""
    return Row(name, image_shape, int(classes), tuple(map(int, rest[:3])), digest)


ROWS = [read_row(line) for line in UPSTREAM.strip().splitlines()]


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
    from bench.training.loop import train  # noqa: PLC0415

    more = ("--batch-size=2", "--kv-store=local", "--warmup-windows=0")
    one, two = (train(parse(words(name, size, *more, f"--windows={n}"))) for n in (1, 2))
    assert (len(one.windows), len(two.windows)) == (1, 2)
    assert one.weight_hash != two.weight_hash
    assert not one.notes
