"""Counts of arrays and values of every network, from upstream's own symbols."""

from typing import NamedTuple

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
