"""Networks with their depths and image shapes; does not import MXNet.

The controller validates and plans sweeps, possibly without MXNet; only workers build networks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bench.errors import SpecError, error_line, is_whole, quoted, unknown


@dataclass(frozen=True, kw_only=True)
class Network:
    """A family of networks.

    builder         "module:function", with the arguments of `build`
    image_shape     channels, height, width
    layers          available depths; empty if there is only one
    initializer     default weight initializer, as in upstream's common/fit.py
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
        """Build an uninitialized Gluon block.

        It maps (N, C, H, W) images to (N, num_classes) scores.
        """
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
    """Return the family and depth of a network's name.

    'resnet' alone has its default depth, 'alexnet' has none. Raises SpecError with the nearest
    known name for an unknown network.
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
    """Return the depth or the family's default.

    Raises SpecError on `field` for an unknown depth.
    """
    layers = NETWORKS[family].layers
    if num_layers is None:
        return NETWORKS[family].default_layers
    if num_layers not in layers:
        expected = f"one of {', '.join(map(str, layers))}" if layers else "no depth"
        raise SpecError(
            error_line(f"{field} of network {quoted(family)}", expected=expected, got=num_layers)
        )
    return num_layers


def check_images(family: str, num_layers: int | None, image_shape: tuple[int, ...]) -> None:
    """Raise SpecError if the network lacks this depth for this image shape."""
    if family == "resnet" and num_layers is not None:
        stages(num_layers, image_shape[1])


def describe(family: str, num_layers: int | None) -> str:
    """Return the network's name in tables and figures: 'resnet-152', 'alexnet'."""
    return family if num_layers is None else f"{family}-{num_layers}"


# The largest image heights, in pixels, of these ResNet variants.
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
    """Return the stages for this image height; SpecError if upstream lacks this depth."""
    if height <= CIFAR_HEIGHT:
        return _cifar(num_layers, height)
    wide = num_layers >= 50
    return Stages(
        units=_UNITS[num_layers],
        channels=(64, 256, 512, 1024, 2048) if wide else (64, 64, 128, 256, 512),
        bottleneck=wide,
    )


def _cifar(num_layers: int, height: int) -> Stages:
    """Return the three stages of small images (He et al. 2015, section 4.2)."""
    units, rest = divmod(num_layers - 2, 6)
    if rest:
        fit = [str(depth) for depth in _UNITS if (depth - 2) % 6 == 0]
        raise SpecError(
            error_line(
                f"network 'resnet-{num_layers}'",
                expected=f"a depth of {' or '.join(fit)} for images of up to {CIFAR_HEIGHT} pixels",
                got=f"image_shape with a height of {height}",
                fix="Use another depth or larger images",
            )
        )
    return Stages(units=(units,) * 3, channels=(16, 16, 32, 64), bottleneck=False)
