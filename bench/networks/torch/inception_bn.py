"""GoogLeNet and Inception-BN in upstream's variants."""

from typing import Any

from torch import nn

from bench.networks.torch.layers import (
    Block,
    average_pool,
    averaged,
    batch_norm,
    biased,
    chain,
    dense,
    max_pool,
    relu,
)

# The largest image height, in pixels, of Inception-BN's smaller form.
_SMALL_HEIGHT = 28
# cuDNN rejects a value below 1e-5, and 1e-5 in single precision is below it.
_EPSILON = 1e-5 + 1e-10


def _plain(channels: int, kernel: int = 1, strides: int = 1) -> Any:
    return chain(biased(channels, kernel, strides, kernel // 2), relu())


def _normalized(channels: int, kernel: int = 1, strides: int = 1) -> Any:
    return chain(
        biased(channels, kernel, strides, kernel // 2),
        batch_norm(_EPSILON),
        relu(),
    )


def _google_block(one: int, three: tuple[int, int], five: tuple[int, int], pooled: int) -> Any:
    """Branches of 1 x 1, 3 x 3 and 5 x 5 convolutions: reduced, then output channels."""
    return Block(
        _plain(one),
        chain(_plain(three[0]), _plain(three[1], 3)),
        chain(_plain(five[0]), _plain(five[1], 5)),
        chain(max_pool(3, 1, 1), _plain(pooled)),
    )


def googlenet(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, 224, 224) images to (N, num_classes) scores."""
    return chain(
        _plain(64, 7, 2),
        max_pool(3, 2),
        _plain(64),
        _plain(192, 3),
        max_pool(3, 2),
        _google_block(64, (96, 128), (16, 32), 32),
        _google_block(128, (128, 192), (32, 96), 64),
        max_pool(3, 2),
        _google_block(192, (96, 208), (16, 48), 64),
        _google_block(160, (112, 224), (24, 64), 64),
        _google_block(128, (128, 256), (24, 64), 64),
        _google_block(112, (144, 288), (32, 64), 64),
        _google_block(256, (160, 320), (32, 128), 128),
        max_pool(3, 2),
        _google_block(256, (160, 320), (32, 128), 128),
        _google_block(384, (192, 384), (48, 128), 128),
        averaged(),
        dense(num_classes),
    )


def _block(
    one: int, three: tuple[int, int], double: tuple[int, int], pooled: int, pooling: Any = None
) -> Any:
    """Branches of one or two convolutions: reduced, then output channels."""
    return Block(
        _normalized(one),
        chain(_normalized(three[0]), _normalized(three[1], 3)),
        chain(_normalized(double[0]), _normalized(double[1], 3), _normalized(double[1], 3)),
        chain(pooling or average_pool(3, 1, 1), _normalized(pooled)),
    )


def _halving_block(three: tuple[int, int], double: tuple[int, int]) -> Any:
    return Block(
        chain(_normalized(three[0]), _normalized(three[1], 3, 2)),
        chain(_normalized(double[0]), _normalized(double[1], 3), _normalized(double[1], 3, 2)),
        max_pool(3, 2, 1),
    )


def _large_features() -> list[Any]:
    return [
        _normalized(64, 7, 2),
        max_pool(3, 2),
        _normalized(64),
        _normalized(192, 3),
        max_pool(3, 2),
        _block(64, (64, 64), (64, 96), 32),
        _block(64, (64, 96), (64, 96), 64),
        _halving_block((128, 160), (64, 96)),
        _block(224, (64, 96), (96, 128), 128),
        _block(192, (96, 128), (96, 128), 128),
        _block(160, (128, 160), (128, 160), 128),
        _block(96, (128, 192), (160, 192), 128),
        _halving_block((128, 192), (192, 256)),
        _block(352, (192, 320), (160, 224), 128),
        _block(352, (192, 320), (192, 224), 128, max_pool(3, 1, 1)),
    ]


def _pair(one: int, three: int) -> Any:
    return Block(_normalized(one), _normalized(three, 3))


def _halving_pair(channels: int) -> Any:
    return Block(_normalized(channels, 3, 2), max_pool(3, 2, 1))


def _small_features() -> list[Any]:
    return [
        _normalized(96, 3),
        _pair(32, 32),
        _pair(32, 48),
        _halving_pair(80),
        _pair(112, 48),
        _pair(96, 64),
        _pair(80, 80),
        _pair(48, 96),
        _halving_pair(96),
        _pair(176, 160),
        _pair(176, 160),
    ]


def inception_bn(*, num_classes: int, image_shape: tuple[int, int, int], **_: Any) -> Any:
    """Build the network: (N, *image_shape) images to (N, num_classes) scores."""
    small = image_shape[1] <= _SMALL_HEIGHT
    features = _small_features() if small else _large_features()
    return chain(*features, average_pool(7, 1), nn.Flatten(), dense(num_classes))
