"""Inception-v3 in upstream's variant."""

from typing import Any

from torch import nn

from bench.networks.torch.layers import (
    Block,
    Fork,
    average_pool,
    chain,
    convolution,
    dense,
    max_pool,
)


def _square(channels: int) -> Any:
    return convolution(channels, 3, padding=1)


def _halving(channels: int) -> Any:
    return convolution(channels, 3, strides=2)


def _row(channels: int, width: int) -> Any:
    return convolution(channels, (1, width), padding=(0, width // 2))


def _column(channels: int, height: int) -> Any:
    return convolution(channels, (height, 1), padding=(height // 2, 0))


def _average() -> Any:
    return average_pool(3, 1, 1)


def _block_35(pooled: int) -> Any:
    return Block(
        convolution(64),
        chain(convolution(48), convolution(64, 5, padding=2)),
        chain(convolution(64), _square(96), _square(96)),
        chain(_average(), convolution(pooled)),
    )


def _block_35_to_17() -> Any:
    return Block(
        _halving(384),
        chain(convolution(64), _square(96), _halving(96)),
        max_pool(3, 2),
    )


def _block_17(inner: int) -> Any:
    return Block(
        convolution(192),
        chain(convolution(inner), _row(inner, 7), _column(192, 7)),
        chain(
            convolution(inner), _column(inner, 7), _row(inner, 7), _column(inner, 7), _row(192, 7)
        ),
        chain(_average(), convolution(192)),
    )


def _block_17_to_8() -> Any:
    return Block(
        chain(convolution(192), _halving(320)),
        chain(convolution(192), _row(192, 7), _column(192, 7), _halving(192)),
        max_pool(3, 2),
    )


def _block_8(pooling: Any) -> Any:
    return Block(
        convolution(320),
        chain(convolution(384), Fork(_row(384, 3), _column(384, 3))),
        chain(convolution(448), _square(384), Fork(_row(384, 3), _column(384, 3))),
        chain(pooling, convolution(192)),
    )


def inception_v3(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, 299, 299) images to (N, num_classes) scores."""
    return chain(
        _halving(32),
        convolution(32, 3),
        _square(64),
        max_pool(3, 2),
        convolution(80),
        convolution(192, 3),
        max_pool(3, 2),
        *(_block_35(pooled) for pooled in (32, 64, 64)),
        _block_35_to_17(),
        *(_block_17(inner) for inner in (128, 160, 160, 192)),
        _block_17_to_8(),
        _block_8(_average()),
        _block_8(max_pool(3, 1, 1)),
        average_pool(8, 1),
        nn.Flatten(),
        dense(num_classes),
    )
