"""MobileNet 1.0 and 2.0 in upstream's variants.

Sources: Howard et al. 2017, Sandler et al. 2018. MobileNet 1.0 has fixed normalization scales.
Upstream's last pooling in it is 7 x 7 at any image size, so its images must have 224 pixels. Here
it covers the remaining feature map; at 224 pixels both are the same.
"""

from typing import Any

from bench.networks.layers import Classifier, batch_norm, chain, convolution
from bench.networks.stages import MOBILE_PAIRS, MOBILE_STAGES
from bench.training.mxnet_shim import mx

nn = mx.gluon.nn


def mobilenet(*, num_classes: int, **_: Any) -> Any:
    """Build the network: (N, 3, 224, 224) images to (N, num_classes) scores."""
    net = Classifier(num_classes, prefix="mobilenet_")
    with net.name_scope():
        net.features.add(convolution(32, 3, strides=2, padding=1))
        before = 32
        for channels, strides in MOBILE_PAIRS:
            net.features.add(
                convolution(before, 3, strides=strides, padding=1, groups=before),
                convolution(channels),
            )
            before = channels
        net.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
    return net


class _Clip(mx.gluon.HybridBlock):  # type: ignore[misc]
    """ReLU with a maximum of 6."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon passes F by this name
        """Map any shape to the same shape."""
        return F.clip(x, 0, 6)


def _normalized(channels: int, kernel: int = 1, strides: int = 1, groups: int = 1) -> Any:
    weights = nn.Conv2D(channels, kernel, strides, kernel // 2, groups=groups, use_bias=False)
    return chain(weights, batch_norm(1e-5))


class _Unit(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Expand the channels, convolve each one, and reduce them without an activation."""

    def __init__(self, before: int, expansion: int, channels: int, strides: int, first: bool):
        super().__init__(prefix="")
        inner = before * expansion
        self.first = first
        self.body = chain(
            _normalized(inner),
            _Clip(),
            _normalized(inner, 3, strides, inner),
            _Clip(),
            _normalized(channels),
        )

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon passes F by this name
        """Map (N, before, H, W) to (N, channels, H / strides, W / strides)."""
        return self.body(x) if self.first else x + self.body(x)


def mobilenet_v2(*, num_classes: int, **_: Any) -> Any:
    """Build the network: (N, 3, H, W) images to (N, num_classes) scores."""
    net = Classifier(num_classes, prefix="mobilenetv20_")
    with net.name_scope():
        net.features.add(_normalized(32, 3, 2), _Clip())
        before = 32
        for expansion, channels, units, strides in MOBILE_STAGES:
            for unit in range(units):
                first = unit == 0
                net.features.add(_Unit(before, expansion, channels, strides if first else 1, first))
                before = channels
        net.features.add(_normalized(1280), _Clip(), nn.GlobalAvgPool2D(), nn.Flatten())
    return net
