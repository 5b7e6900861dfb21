"""Which networks there are, with their sizes and image shapes; imports no MXNet.

A sweep is checked and planned on a master that may not even have MXNet; only a worker builds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bench.errors import SpecError, is_whole, quoted, unknown


@dataclass(frozen=True, kw_only=True)
class Network:
    """A family of networks.

    builder         "module:function", with the arguments of `build`
    image_shape     channels, height, width
    layers          depths it comes in; empty if there is one only
    initializer     of its weights if none is asked for, as upstream's common/fit.py chooses
    """

    builder: str
    image_shape: tuple[int, int, int] = (3, 224, 224)
    layers: tuple[int, ...] = ()
    default_layers: int | None = None
    initializer: str = "he"

    def build(
        self,
        *,
        num_classes: int,
        num_layers: int | None,
        image_shape: tuple[int, ...] | None = None,
    ) -> Any:
        """An uninitialized Gluon block: (N, C, H, W) images to (N, num_classes) scores."""
        module, _, function = self.builder.partition(":")
        builder: Callable[..., Any] = getattr(import_module(module), function)
        return builder(
            num_classes=num_classes,
            num_layers=num_layers,
            image_shape=image_shape or self.image_shape,
        )


NETWORKS = {
    "alexnet": Network(builder="bench.networks.alexnet:alexnet", initializer="normal"),
    "inception-v3": Network(
        builder="bench.networks.inception_v3:inception_v3", image_shape=(3, 299, 299)
    ),
    "resnet": Network(
        builder="bench.networks.resnet:resnet", layers=(18, 34, 50, 101, 152), default_layers=50
    ),
    "vgg": Network(
        builder="bench.networks.vgg:vgg",
        layers=(11, 13, 16, 19),
        default_layers=16,
        initializer="xavier",
    ),
    "mobilenet": Network(builder="bench.networks.mobilenet:mobilenet"),
    "tiny": Network(builder="bench.networks.tiny:tiny", image_shape=(3, 64, 64)),
}


def named(name: str) -> tuple[str, int | None]:
    """Family and depth of 'resnet-152', 'resnet' (its default depth) or 'alexnet'.

    Raises SpecError, with the nearest name there is, for any other.
    """
    family, _, depth = name.rpartition("-")
    if name in NETWORKS:
        return name, NETWORKS[name].default_layers
    if family in NETWORKS and is_whole(depth):
        return family, checked_layers(family, int(depth))
    known = list(NETWORKS)
    known += [f"{label}-{n}" for label, network in NETWORKS.items() for n in network.layers]
    raise unknown("network", name, known)


def checked_layers(family: str, num_layers: int | None, field: str = "num_layers") -> int | None:
    """The depth, or the family's default; SpecError naming `field` if the family has none such."""
    layers = NETWORKS[family].layers
    if num_layers is None:
        return NETWORKS[family].default_layers
    if num_layers not in layers:
        expected = f"one of {', '.join(map(str, layers))}" if layers else "no number of layers"
        raise SpecError(
            f"{field} of network {quoted(family)}: expected {expected}, got {num_layers}"
        )
    return num_layers


def check_images(family: str, num_layers: int | None, image_shape: tuple[int, ...]) -> None:
    """SpecError if the network has no graph of this depth for images of this shape."""
    if family == "resnet" and num_layers is not None:
        stages(num_layers, image_shape[1])


def describe(family: str, num_layers: int | None) -> str:
    """The label of a network in tables and figures: 'resnet-152', 'alexnet'."""
    return family if num_layers is None else f"{family}-{num_layers}"


# Up to these heights, in pixels.
CIFAR_HEIGHT, THUMBNAIL_HEIGHT = 28, 32

_UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Stages of a ResNet.

    units       residual units per stage
    channels    of the first convolution, then of each stage's output
    bottleneck  three convolutions per unit instead of two
    """

    units: tuple[int, ...]
    channels: tuple[int, ...]
    bottleneck: bool


def stages(num_layers: int, height: int) -> Stages:
    """The stages for images of this height; SpecError if upstream has none of this depth."""
    if height <= CIFAR_HEIGHT:
        return _cifar(num_layers, height)
    wide = num_layers >= 50
    return Stages(
        units=_UNITS[num_layers],
        channels=(64, 256, 512, 1024, 2048) if wide else (64, 64, 128, 256, 512),
        bottleneck=wide,
    )


def _cifar(num_layers: int, height: int) -> Stages:
    """Three stages (He et al. 2015, section 4.2)."""
    units, rest = divmod(num_layers - 2, 6)
    if rest:
        fit = [str(depth) for depth in _UNITS if (depth - 2) % 6 == 0]
        raise SpecError(
            f"network 'resnet-{num_layers}': for images of up to {CIFAR_HEIGHT} pixels there are "
            f"depths {' and '.join(fit)}, and this image_shape has a height of {height}; give "
            f"another depth or larger images"
        )
    return Stages(units=(units,) * 3, channels=(16, 16, 32, 64), bottleneck=False)
