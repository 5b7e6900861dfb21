"""Which residual units upstream's ResNet of a depth has, by the height of its images.

Imports no MXNet: a sweep is checked with it.
"""

from dataclasses import dataclass

from bench.errors import SpecError

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
