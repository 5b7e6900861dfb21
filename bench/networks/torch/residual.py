"""ResNet with pre-activation, ResNet v1 and ResNeXt in upstream's variants."""

from typing import Any

from torch import nn

from bench.networks.stages import RESNET_V1, RESNEXT, THUMBNAIL_HEIGHT, Stages, Variant, stages
from bench.networks.torch.layers import averaged, batch_norm, chain, conv, dense, max_pool, relu

_EPSILON = 2e-5


def _same(channels: int, kernel: int, strides: int = 1, groups: int = 1) -> Any:
    return conv(channels, kernel, strides=strides, padding=kernel // 2, groups=groups)


def _activated() -> tuple[Any, Any]:
    return batch_norm(_EPSILON), relu()


class _PreactivationUnit(nn.Module):  # type: ignore[misc]
    """A residual unit: normalized convolutions added to their input.

    `projects`: a 1 x 1 convolution adapts the input's channels or size first.
    """

    def __init__(self, channels: int, *, strides: int, bottleneck: bool, projects: bool) -> None:
        super().__init__()
        self.first = chain(*_activated())
        if bottleneck:
            body = [_same(channels // 4, 1), *_activated(), _same(channels // 4, 3, strides)]
            body += [*_activated(), _same(channels, 1)]
        else:
            body = [_same(channels, 3, strides), *_activated(), _same(channels, 3)]
        self.body = chain(*body)
        self.shortcut = _same(channels, 1, strides) if projects else None

    def forward(self, x: Any) -> Any:
        """Map (N, C, H, W) to (N, channels, H / strides, W / strides)."""
        activated = self.first(x)
        shortcut = x if self.shortcut is None else self.shortcut(activated)
        return self.body(activated) + shortcut


def resnet(*, num_classes: int, num_layers: int, image_shape: tuple[int, int, int]) -> Any:
    """(N, *image_shape) images to (N, num_classes) scores.

    Raises SpecError, as `stages` does.
    """
    made = stages("resnet", num_layers, image_shape[1])
    stem = [_same(made.channels[0], 3)]
    if image_shape[1] > THUMBNAIL_HEIGHT:
        stem = [_same(made.channels[0], 7, 2), *_activated(), max_pool(3, 2, 1)]
    units = [
        _PreactivationUnit(channels, strides=strides, bottleneck=made.bottleneck, projects=projects)
        for channels, strides, projects in _units(made)
    ]
    first = batch_norm(_EPSILON, fix_gamma=True)
    return chain(first, *stem, *units, *_activated(), averaged(), dense(num_classes))


def _units(made: Stages) -> list[tuple[int, int, bool]]:
    """Return output channels, stride and whether it projects, of each unit."""
    found = []
    for number, count in enumerate(made.units, 1):
        for unit in range(count):
            strides = 2 if unit == 0 and number > 1 else 1
            found.append((made.channels[number], strides, unit == 0))
    return found


def _normalized(channels: int, kernel: int, strides: int = 1, groups: int = 1) -> tuple[Any, Any]:
    return _same(channels, kernel, strides, groups), batch_norm(_EPSILON)


class _PostactivationUnit(nn.Module):  # type: ignore[misc]
    """A residual unit: convolutions, added to their input and then activated."""

    def __init__(self, body: list[Any], channels: int, strides: int, *, projects: bool) -> None:
        super().__init__()
        self.body = chain(*body)
        self.shortcut = chain(*_normalized(channels, 1, strides)) if projects else None
        self.activation = relu()

    def forward(self, x: Any) -> Any:
        """Map (N, C, H, W) to (N, channels, H / strides, W / strides)."""
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return self.activation(self.body(x) + shortcut)


def _body(variant: Variant, channels: int, strides: int, *, bottleneck: bool) -> list[Any]:
    if not bottleneck:
        return [*_normalized(channels, 3, strides), relu(), *_normalized(channels, 3)]
    inner = channels // variant.inner
    before, after = (strides, 1) if variant.early else (1, strides)
    return [
        *(*_normalized(inner, 1, before), relu()),
        *(*_normalized(inner, 3, after, variant.groups), relu()),
        *_normalized(channels, 1),
    ]


def _stem(variant: Variant, channels: int, height: int) -> list[Any]:
    first = [batch_norm(_EPSILON, fix_gamma=True)] if variant.normalizes else []
    if height > THUMBNAIL_HEIGHT:
        return [*first, *_normalized(channels, 7, 2), relu(), max_pool(3, 2, 1)]
    weights, normalization = _normalized(channels, 3)
    return [*first, weights] if variant.normalizes else [weights, normalization]


def _build(
    variant: Variant, num_classes: int, num_layers: int, image_shape: tuple[int, int, int]
) -> Any:
    made = stages(variant.family, num_layers, image_shape[1])
    units = [
        _PostactivationUnit(
            _body(variant, channels, strides, bottleneck=made.bottleneck),
            channels,
            strides,
            projects=projects,
        )
        for channels, strides, projects in _units(made)
    ]
    stem = _stem(variant, made.channels[0], image_shape[1])
    return chain(*stem, *units, averaged(), dense(num_classes))


def resnet_v1(*, num_classes: int, num_layers: int, image_shape: tuple[int, int, int]) -> Any:
    """(N, *image_shape) images to (N, num_classes) scores."""
    return _build(RESNET_V1, num_classes, num_layers, image_shape)


def resnext(*, num_classes: int, num_layers: int, image_shape: tuple[int, int, int]) -> Any:
    """(N, *image_shape) images to (N, num_classes) scores."""
    return _build(RESNEXT, num_classes, num_layers, image_shape)
