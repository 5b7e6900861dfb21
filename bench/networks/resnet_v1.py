"""ResNet v1 and ResNeXt in upstream's variants: residual, with post-activation.

Sources: He et al. 2015 and Xie et al. 2016. Both normalize the projection of a stage's first unit.
Upstream normalizes the images in ResNeXt only, and the first convolution of small images in ResNet
v1 only.
"""

from typing import Any

from bench.networks.layers import Classifier, batch_norm, chain
from bench.networks.stages import RESNET_V1, RESNEXT, THUMBNAIL_HEIGHT, Stages, Variant, stages
from bench.training.mxnet_shim import mx

nn = mx.gluon.nn
_EPSILON = 2e-5


def _normalized(channels: int, kernel: int, strides: int = 1, groups: int = 1) -> tuple[Any, Any]:
    weights = nn.Conv2D(channels, kernel, strides, kernel // 2, groups=groups, use_bias=False)
    return weights, batch_norm(_EPSILON)


class _Unit(mx.gluon.HybridBlock):  # type: ignore[misc]
    """A residual unit: convolutions, added to their input and then activated.

    `projects`: a 1 x 1 convolution adapts the input's channels or size first.
    """

    def __init__(self, body: list[Any], channels: int, strides: int, *, projects: bool) -> None:
        super().__init__(prefix="")
        self.body = chain(*body)
        self.shortcut = chain(*_normalized(channels, 1, strides)) if projects else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon passes F by this name
        """Map (N, C, H, W) to (N, channels, H / strides, W / strides)."""
        added = self.body(x) + (self.shortcut(x) if self.shortcut is not None else x)
        return F.Activation(added, act_type="relu")


def _body(variant: Variant, channels: int, strides: int, *, bottleneck: bool) -> list[Any]:
    if not bottleneck:
        first = _normalized(channels, 3, strides)
        return [*first, nn.Activation("relu"), *_normalized(channels, 3)]
    inner = channels // variant.inner
    before, after = (strides, 1) if variant.early else (1, strides)
    return [
        *_normalized(inner, 1, before),
        nn.Activation("relu"),
        *_normalized(inner, 3, after, variant.groups),
        nn.Activation("relu"),
        *_normalized(channels, 1),
    ]


def _stage(variant: Variant, number: int, made: Stages) -> Any:
    stage = nn.HybridSequential(prefix=f"stage{number}_")
    channels = made.channels[number]
    with stage.name_scope():
        for unit in range(made.units[number - 1]):
            strides = 2 if unit == 0 and number > 1 else 1
            body = _body(variant, channels, strides, bottleneck=made.bottleneck)
            stage.add(_Unit(body, channels, strides, projects=unit == 0))
    return stage


def _stem(variant: Variant, channels: int, height: int) -> list[Any]:
    """Return the layers before the first stage; small images keep their size."""
    first = [batch_norm(_EPSILON, fix_gamma=True)] if variant.normalizes else []
    if height > THUMBNAIL_HEIGHT:
        stem = _normalized(channels, 7, 2)
        return [*first, *stem, nn.Activation("relu"), nn.MaxPool2D(3, 2, 1)]
    weights, normalization = _normalized(channels, 3)
    return [*first, weights] if variant.normalizes else [weights, normalization]


def _build(
    variant: Variant, num_classes: int, num_layers: int, image_shape: tuple[int, int, int]
) -> Any:
    height = image_shape[1]
    made = stages(variant.family, num_layers, height)
    net = Classifier(num_classes, prefix=f"{variant.family.replace('-', '')}_")
    with net.name_scope():
        net.features.add(
            *_stem(variant, made.channels[0], height),
            *(_stage(variant, number, made) for number in range(1, len(made.units) + 1)),
            nn.GlobalAvgPool2D(),
            nn.Flatten(),
        )
    return net


def resnet_v1(*, num_classes: int, num_layers: int, image_shape: tuple[int, int, int]) -> Any:
    """Build the network: (N, *image_shape) images to (N, num_classes) scores.

    Raises SpecError, as `stages` does.
    """
    return _build(RESNET_V1, num_classes, num_layers, image_shape)


def resnext(*, num_classes: int, num_layers: int, image_shape: tuple[int, int, int]) -> Any:
    """Build the network: (N, *image_shape) images to (N, num_classes) scores.

    Raises SpecError, as `stages` does.
    """
    return _build(RESNEXT, num_classes, num_layers, image_shape)
