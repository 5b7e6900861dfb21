"""Networks without branches: AlexNet, VGG, LeNet, the perceptron and tiny."""

from typing import Any

from torch import nn

from bench.networks.torch.layers import averaged, biased, chain, dense, max_pool, relu


def _activated(channels: int, kernel: int, strides: int = 1, padding: int = 0) -> list[Any]:
    return [biased(channels, kernel, strides, padding), relu()]


def _dense(units: int) -> list[Any]:
    return [dense(units), relu(), nn.Dropout(0.5)]


def _response_norm() -> Any:
    return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=2)


def alexnet(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, 224, 224) images to (N, num_classes) scores."""
    return chain(
        *(*_activated(96, 11, 4), _response_norm(), max_pool(3, 2)),
        *(*_activated(256, 5, padding=2), _response_norm(), max_pool(3, 2)),
        *_activated(384, 3, padding=1),
        *_activated(384, 3, padding=1),
        *(*_activated(256, 3, padding=1), max_pool(3, 2)),
        nn.Flatten(),
        *_dense(4096),
        *_dense(4096),
        dense(num_classes),
    )


# Convolutions of each of VGG's five stages, by depth, and the channels of a stage.
_VGG = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_VGG_CHANNELS = (64, 128, 256, 512, 512)


def vgg(*, num_classes: int, num_layers: int, **_: Any) -> Any:
    """(N, 3, 224, 224) images to (N, num_classes) scores."""
    layers: list[Any] = []
    for count, channels in zip(_VGG[num_layers], _VGG_CHANNELS, strict=True):
        for _count in range(count):
            layers += _activated(channels, 3, padding=1)
        layers.append(max_pool(2, 2))
    return chain(*layers, nn.Flatten(), *_dense(4096), *_dense(4096), dense(num_classes))


def lenet(*, num_classes: int, **_: Any) -> Any:
    """(N, 1, 28, 28) images to (N, num_classes) scores."""
    return chain(
        *(biased(20, 5), nn.Tanh(), max_pool(2, 2)),
        *(biased(50, 5), nn.Tanh(), max_pool(2, 2)),
        *(nn.Flatten(), dense(500), nn.Tanh(), dense(num_classes)),
    )


def mlp(*, num_classes: int, **_: Any) -> Any:
    """Images of any shape to (N, num_classes) scores."""
    return chain(nn.Flatten(), dense(128), relu(), dense(64), relu(), dense(num_classes))


def tiny(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, H, W) images to (N, num_classes) scores; H and W must be at least 32."""
    return chain(
        *(*_activated(16, 7, 4, 3), max_pool(2, 2)),
        *(*_activated(32, 3, padding=1), max_pool(2, 2)),
        *_activated(64, 3, padding=1),
        averaged(),
        dense(num_classes),
    )
