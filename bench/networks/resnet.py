"""Residual networks with pre-activation in upstream's variant.

Source: He et al. 2016 ("v2"). The Gluon zoo's variants lack the first stage's projection at 18 and
34 layers, use one stem for all image sizes, and do not train the shift of the input normalization.
MXNet updates the running averages (used in validation) only while it computes gradients: without a
gradient before the first convolution, those of the input would stay at mean 0 and variance 1.
"""

from typing import Any

from bench.networks.layers import Classifier, batch_norm
from bench.networks.stages import THUMBNAIL_HEIGHT, Stages, stages
from bench.training.mxnet_shim import mx

nn = mx.gluon.nn
_EPSILON = 2e-5


def _convolution(channels: int, kernel: int, strides: int = 1) -> Any:
    return nn.Conv2D(channels, kernel, strides, kernel // 2, use_bias=False)


def _activated() -> tuple[Any, Any]:
    return batch_norm(_EPSILON), nn.Activation("relu")


class _Unit(mx.gluon.HybridBlock):  # type: ignore[misc]
    """A residual unit: normalized convolutions added to their input.

    `projects`: a 1 x 1 convolution adapts the input's channels or size first.
    """

    def __init__(self, channels: int, *, strides: int, bottleneck: bool, projects: bool) -> None:
        super().__init__(prefix="")
        self.first = nn.HybridSequential(prefix="")
        self.first.add(*_activated())
        self.body = nn.HybridSequential(prefix="")
        if bottleneck:
            self.body.add(_convolution(channels // 4, 1), *_activated())
            self.body.add(_convolution(channels // 4, 3, strides), *_activated())
            self.body.add(_convolution(channels, 1))
        else:
            self.body.add(_convolution(channels, 3, strides), *_activated())
            self.body.add(_convolution(channels, 3))
        self.shortcut = _convolution(channels, 1, strides) if projects else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon passes F by this name
        """Map (N, C, H, W) to (N, channels, H / strides, W / strides)."""
        activated = self.first(x)
        shortcut = self.shortcut(activated) if self.shortcut is not None else x
        return self.body(activated) + shortcut


def _stage(number: int, made: Stages) -> Any:
    stage = nn.HybridSequential(prefix=f"stage{number}_")
    channels, strides = made.channels[number], 1 if number == 1 else 2
    with stage.name_scope():
        for unit in range(made.units[number - 1]):
            stage.add(
                _Unit(
                    channels,
                    strides=strides if unit == 0 else 1,
                    bottleneck=made.bottleneck,
                    projects=unit == 0,
                )
            )
    return stage


def _stem(channels: int, height: int) -> list[Any]:
    """Return the layers before the first stage; small images keep their size."""
    if height <= THUMBNAIL_HEIGHT:
        return [_convolution(channels, 3)]
    return [_convolution(channels, 7, 2), *_activated(), nn.MaxPool2D(3, 2, 1)]


def resnet(*, num_classes: int, num_layers: int, image_shape: tuple[int, int, int]) -> Any:
    """Build the network: (N, *image_shape) images to (N, num_classes) scores.

    Raises SpecError, as `stages` does.
    """
    height = image_shape[1]
    made = stages("resnet", num_layers, height)
    net = Classifier(num_classes, prefix="resnetv20_")
    with net.name_scope():
        net.features.add(
            batch_norm(_EPSILON, fix_gamma=True),
            *_stem(made.channels[0], height),
            *(_stage(number, made) for number in range(1, len(made.units) + 1)),
            *_activated(),
            nn.GlobalAvgPool2D(),
            nn.Flatten(),
        )
    return net
