"""Networks with their depths and image shapes; does not import MXNet.

The controller validates and plans sweeps, possibly without MXNet; only workers build networks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bench.errors import SpecError, error_line, is_whole, quoted, unknown
from bench.networks.stages import LARGE, SMALL, SMALL_HEIGHTS, small_units, stages


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


def _residual(builder: str) -> Network:
    return Network(builder=builder, layers=(*LARGE, *SMALL), default_layers=50)


_INCEPTION, _MNIST = (3, 299, 299), (1, 28, 28)

NETWORKS = {
    "alexnet": Network(builder="bench.networks.alexnet:alexnet", initializer="normal"),
    "googlenet": Network(builder="bench.networks.inception_bn:googlenet"),
    "inception-bn": Network(builder="bench.networks.inception_bn:inception_bn"),
    "inception-v3": Network(
        builder="bench.networks.inception_v3:inception_v3", image_shape=_INCEPTION
    ),
    "inception-v4": Network(
        builder="bench.networks.inception_v4:inception_v4", image_shape=_INCEPTION
    ),
    "inception-resnet-v2": Network(
        builder="bench.networks.inception_v4:inception_resnet_v2", image_shape=_INCEPTION
    ),
    "resnet": _residual("bench.networks.resnet:resnet"),
    "resnet-v1": _residual("bench.networks.resnet_v1:resnet_v1"),
    "resnext": _residual("bench.networks.resnet_v1:resnext"),
    "vgg": Network(
        builder="bench.networks.vgg:vgg",
        layers=(11, 13, 16, 19),
        default_layers=16,
        initializer="xavier",
    ),
    "mobilenet": Network(builder="bench.networks.mobilenet:mobilenet"),
    "mobilenetv2": Network(builder="bench.networks.mobilenet:mobilenet_v2"),
    "lenet": Network(builder="bench.networks.mnist:lenet", image_shape=_MNIST),
    "mlp": Network(builder="bench.networks.mnist:mlp", image_shape=_MNIST),
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
    raise unknown("network", name, known, shown=map(_with_depths, NETWORKS))


def _with_depths(family: str) -> str:
    layers = NETWORKS[family].layers
    return f"{family}-{{{','.join(map(str, layers))}}}" if layers else family


def checked_layers(family: str, num_layers: int | None, field: str = "num_layers") -> int | None:
    """Return the depth or the family's default.

    Raises SpecError on `field` for an unknown depth.
    """
    network = NETWORKS[family]
    if num_layers is None:
        return network.default_layers
    small = family in SMALL_HEIGHTS and small_units(num_layers) is not None
    if num_layers not in network.layers and not small:
        depths = ", ".join(map(str, network.layers))
        expected = f"one of {depths}" if depths else "no depth"
        raise SpecError(
            error_line(f"{field} of network {quoted(family)}", expected=expected, got=num_layers)
        )
    return num_layers


def check_images(family: str, num_layers: int | None, image_shape: tuple[int, ...]) -> None:
    """Raise SpecError if the network lacks this depth for this image shape."""
    if family in SMALL_HEIGHTS and num_layers is not None:
        stages(family, num_layers, image_shape[1])


def describe(family: str, num_layers: int | None) -> str:
    """Return the network's name in tables and figures: 'resnet-152', 'alexnet'."""
    return family if num_layers is None else f"{family}-{num_layers}"
