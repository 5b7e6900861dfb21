"""Stages of residual networks and MobileNets; imports no framework.

In residual networks, images up to a height have three stages (He et al. 2015, section 4.2), larger
ones have four.
"""

from dataclasses import dataclass

from bench.errors import SpecError, error_line

# The largest image height, in pixels, with three stages, by family.
SMALL_HEIGHTS = {"resnet": 28, "resnet-v1": 28, "resnext": 32}
# Up to this image height, in pixels, the first convolution keeps the image's size.
THUMBNAIL_HEIGHT = 32

_UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}
# Depths of large images, and the published ones of small images.
LARGE, SMALL = tuple(_UNITS), (20, 32, 44, 56, 110, 164)
# From this depth on, small images have three convolutions per unit instead of two.
_DEEP = 164

# Of MobileNet 1.0, per pair: output channels of the 1 x 1 convolution, stride of the depthwise
# one before it.
MOBILE_PAIRS = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)

# Of MobileNet 2.0, per stage: expansion, output channels, units, stride of the first unit.
MOBILE_STAGES = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """How a family of residual networks with post-activation differs.

    inner        inner channels of a bottleneck, as a share of its output: 1 / inner
    groups       groups of a bottleneck's 3 x 3 convolution
    early        whether a bottleneck reduces the size by its first convolution, not the second
    normalizes   whether the images are normalized first
    """

    family: str
    inner: int
    groups: int
    early: bool
    normalizes: bool


RESNET_V1 = Variant(family="resnet-v1", inner=4, groups=1, early=True, normalizes=False)
RESNEXT = Variant(family="resnext", inner=2, groups=32, early=False, normalizes=True)


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Stages of a residual network.

    units       residual units per stage
    channels    of the first convolution, then of each stage's output
    bottleneck  three convolutions per unit instead of two
    """

    units: tuple[int, ...]
    channels: tuple[int, ...]
    bottleneck: bool


def small_units(num_layers: int) -> int | None:
    """Return the units per stage for small images; None if upstream lacks this depth."""
    units, rest = divmod(num_layers - 2, 9 if num_layers >= _DEEP else 6)
    return None if rest or units < 1 else units


def stages(family: str, num_layers: int, height: int) -> Stages:
    """Return the stages of images `height` pixels high.

    Raises SpecError if upstream lacks this depth.
    """
    small = height <= SMALL_HEIGHTS[family]
    units = small_units(num_layers) if small else None
    if units is not None:
        deep = num_layers >= _DEEP
        channels = (16, 64, 128, 256) if deep else (16, 16, 32, 64)
        return Stages(units=(units,) * 3, channels=channels, bottleneck=deep)
    if small or num_layers not in _UNITS:
        raise _lacks(family, num_layers, height)
    wide = num_layers >= 50
    return Stages(
        units=_UNITS[num_layers],
        channels=(64, 256, 512, 1024, 2048) if wide else (64, 64, 128, 256, 512),
        bottleneck=wide,
    )


def _lacks(family: str, num_layers: int, height: int) -> SpecError:
    small_height = SMALL_HEIGHTS[family]
    small = height <= small_height
    known = SMALL if small else LARGE
    depths = f"{', '.join(map(str, known[:-1]))} or {known[-1]}"
    return SpecError(
        error_line(
            f"network '{family}-{num_layers}'",
            expected=f"a depth of {depths} for images "
            f"{'of up to' if small else 'above'} {small_height} pixels",
            got=f"image_shape with a height of {height}",
            fix=f"Use another depth or {'larger' if small else 'smaller'} images",
        )
    )
