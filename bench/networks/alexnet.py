"""AlexNet as in the published study: one tower, local response normalization.

The Gluon zoo's alexnet is a different network (61 M parameters); this one has 50.84 M in 16 arrays.
"""

from typing import Any

from bench.training.mxnet_shim import mx

nn = mx.gluon.nn


class _LocalResponseNorm(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Local response normalization (Krizhevsky et al. 2012, section 3.3).

    `composed`: use simple operators instead of MXNet's LRN, for float32 on CPU. The gradient of
    LRN takes a third of a training step there (oneDNN's reference code), the composed one a tenth.
    Results are equal up to rounding.
    """

    composed = False

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon passes F by this name
        if not self.composed:
            return F.LRN(x, alpha=1e-4, beta=0.75, knorm=2, nsize=5)
        squares = F.square(x)
        none = F.zeros_like(F.slice_axis(x, axis=1, begin=0, end=2))
        padded = F.Concat(none, squares, none, dim=1)
        near = F.slice_axis(padded, axis=1, begin=0, end=-4)
        for first, end in zip(range(1, 5), (-3, -2, -1, None), strict=True):
            near = near + F.slice_axis(padded, axis=1, begin=first, end=end)
        scale = 2 + (1e-4 / 5) * near
        return x * F.rsqrt(scale * F.sqrt(scale))


def _dense(units: int) -> list[Any]:
    return [nn.Dense(units, activation="relu"), nn.Dropout(0.5)]


def alexnet(*, num_classes: int, **_: Any) -> Any:
    """(N, 3, 224, 224) images to (N, num_classes) scores."""
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(96, 11, strides=4, activation="relu"),
        _LocalResponseNorm(),
        nn.MaxPool2D(3, 2),
        nn.Conv2D(256, 5, padding=2, activation="relu"),
        _LocalResponseNorm(),
        nn.MaxPool2D(3, 2),
        nn.Conv2D(384, 3, padding=1, activation="relu"),
        nn.Conv2D(384, 3, padding=1, activation="relu"),
        nn.Conv2D(256, 3, padding=1, activation="relu"),
        nn.MaxPool2D(3, 2),
        nn.Flatten(),
        *_dense(4096),
        *_dense(4096),
        nn.Dense(num_classes),
    )
    return net
