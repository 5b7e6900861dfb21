"""MobileNet 1.0 and 2.0 in upstream's variants."""

from typing import Any

from torch import nn

from bench.networks.stages import MOBILE_PAIRS, MOBILE_STAGES
from bench.networks.torch.layers import averaged, batch_norm, chain, conv, convolution, dense


def mobilenet(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, 224, 224) images to (N, num_classes) scores."""
    layers = [convolution(32, 3, strides=2, padding=1)]
    before = 32
    for channels, strides in MOBILE_PAIRS:
        layers += [convolution(before, 3, strides=strides, padding=1, groups=before)]
        layers += [convolution(channels)]
        before = channels
    return chain(*layers, averaged(), dense(num_classes))


def _normalized(channels: int, kernel: int = 1, strides: int = 1, groups: int = 1) -> Any:
    made = conv(channels, kernel, strides=strides, padding=kernel // 2, groups=groups)
    return chain(made, batch_norm(1e-5))


def _clip() -> Any:
    return nn.ReLU6(inplace=True)


class _Unit(nn.Module):  # type: ignore[misc]
    """Expand the channels, convolve each one, and reduce them without an activation."""

    def __init__(self, before: int, expansion: int, channels: int, strides: int, first: bool):
        super().__init__()
        inner = before * expansion
        self.first = first
        self.body = chain(
            *(_normalized(inner), _clip()),
            *(_normalized(inner, 3, strides, inner), _clip()),
            _normalized(channels),
        )

    def forward(self, x: Any) -> Any:
        """Map (N, before, H, W) to (N, channels, H / strides, W / strides)."""
        return self.body(x) if self.first else x + self.body(x)


def mobilenet_v2(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, H, W) images to (N, num_classes) scores."""
    layers = [_normalized(32, 3, 2), _clip()]
    before = 32
    for expansion, channels, units, strides in MOBILE_STAGES:
        for unit in range(units):
            first = unit == 0
            layers.append(_Unit(before, expansion, channels, strides if first else 1, first))
            before = channels
    return chain(*layers, _normalized(1280), _clip(), averaged(), dense(num_classes))
