"""Inception-v4 and Inception-ResNet-v2 in upstream's variants."""

from typing import Any

from torch import nn

from bench.networks.torch.layers import (
    Block,
    Fork,
    average_pool,
    averaged,
    batch_norm,
    biased,
    chain,
    convolution,
    dense,
    max_pool,
    relu,
)


def _square(channels: int) -> Any:
    return convolution(channels, 3, padding=1)


def _halving(channels: int) -> Any:
    return convolution(channels, 3, strides=2)


def _row(channels: int, width: int = 7) -> Any:
    return convolution(channels, (1, width), padding=(0, width // 2))


def _column(channels: int, height: int = 7) -> Any:
    return convolution(channels, (height, 1), padding=(height // 2, 0))


def _averaged(channels: int) -> Any:
    return chain(average_pool(3, 1, 1), convolution(channels))


def _stem() -> Any:
    return chain(
        _halving(32),
        convolution(32, 3),
        _square(64),
        Block(max_pool(3, 2), _halving(96)),
        Block(
            chain(convolution(64), convolution(96, 3)),
            chain(convolution(64), _column(64), _row(64), convolution(96, 3)),
        ),
        Block(_halving(192), max_pool(3, 2)),
    )


def _block_35() -> Any:
    return Block(
        _averaged(96),
        convolution(96),
        chain(convolution(64), _square(96)),
        chain(convolution(64), _square(96), _square(96)),
    )


def _block_35_to_17() -> Any:
    return Block(
        max_pool(3, 2),
        _halving(384),
        chain(convolution(192), _square(224), _halving(256)),
    )


def _block_17() -> Any:
    return Block(
        _averaged(128),
        convolution(384),
        chain(convolution(192), _row(224), _column(256)),
        chain(convolution(192), _row(192), _column(224), _row(224), _column(256)),
    )


def _block_17_to_8() -> Any:
    return Block(
        max_pool(3, 2),
        chain(convolution(192), _halving(192)),
        chain(convolution(256), _row(256), _column(320), _halving(320)),
    )


def _block_8() -> Any:
    return Block(
        _averaged(256),
        convolution(256),
        chain(convolution(384), Fork(_row(256, 3), _column(256, 3))),
        chain(
            convolution(384),
            _row(448, 3),
            _column(512, 3),
            Fork(_column(256, 3), _row(256, 3)),
        ),
    )


def inception_v4(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, 299, 299) images to (N, num_classes) scores."""
    return chain(
        _stem(),
        *(_block_35() for _ in range(4)),
        _block_35_to_17(),
        *(_block_17() for _ in range(7)),
        _block_17_to_8(),
        *(_block_8() for _ in range(3)),
        average_pool(8, 1, 1),
        nn.Dropout(0.2),
        nn.Flatten(),
        dense(num_classes),
    )


class _Residual(nn.Module):  # type: ignore[misc]
    """Branches that are projected to `channels`, scaled and added to their input."""

    def __init__(self, channels: int, scale: float, *branches: Any, activated: bool = True) -> None:
        super().__init__()
        self.scale = scale
        self.body = chain(Block(*branches), biased(channels), batch_norm(1e-3, fix_gamma=True))
        self.activation = relu() if activated else nn.Identity()

    def forward(self, x: Any) -> Any:
        """Map (N, channels, H, W) to the same shape."""
        return self.activation(x + self.scale * self.body(x))


def _biased(channels: int, kernel: Any = 1, padding: Any = 0, strides: int = 1) -> Any:
    return chain(
        biased(channels, kernel, strides, padding), batch_norm(1e-3, fix_gamma=True), relu()
    )


def _halving_biased(channels: int) -> Any:
    return _biased(channels, 3, strides=2)


def _residual_35() -> Any:
    return _Residual(
        320,
        0.17,
        _biased(32),
        chain(_biased(32), _biased(32, 3, 1)),
        chain(_biased(32), _biased(48, 3, 1), _biased(64, 3, 1)),
    )


def _residual_17() -> Any:
    return _Residual(
        1088,
        0.1,
        _biased(192),
        chain(_biased(129), _biased(160, (1, 7), (1, 2)), _biased(192, (7, 1), (2, 1))),
    )


def _residual_8(scale: float = 0.2, *, activated: bool = True) -> Any:
    return _Residual(
        2080,
        scale,
        _biased(192),
        chain(_biased(192), _biased(224, (1, 3), (0, 1)), _biased(256, (3, 1), (1, 0))),
        activated=activated,
    )


def _mixed_35() -> Any:
    return Block(
        _biased(96),
        chain(_biased(48), _biased(64, 5, 2)),
        chain(_biased(64), _biased(96, 3, 1), _biased(96, 3, 1)),
        chain(average_pool(3, 1, 1), _biased(64)),
    )


def _reduced_17() -> Any:
    return Block(
        _halving_biased(384),
        chain(_biased(256), _biased(256, 3, 1), _halving_biased(384)),
        max_pool(3, 2),
    )


def _reduced_8() -> Any:
    return Block(
        chain(_biased(256), _halving_biased(384)),
        chain(_biased(256), _halving_biased(288)),
        chain(_biased(256), _biased(288, 3, 1), _halving_biased(320)),
        max_pool(3, 2),
    )


def inception_resnet_v2(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, 299, 299) images to (N, num_classes) scores."""
    return chain(
        _halving_biased(32),
        _biased(32, 3),
        _biased(64, 3, 1),
        max_pool(3, 2),
        _biased(80),
        _biased(192, 3),
        max_pool(3, 2),
        _mixed_35(),
        *(_residual_35() for _ in range(10)),
        _reduced_17(),
        *(_residual_17() for _ in range(20)),
        _reduced_8(),
        *(_residual_8() for _ in range(9)),
        _residual_8(1.0, activated=False),
        _biased(1536),
        averaged(),
        nn.Dropout(0.2),
        dense(num_classes),
    )
