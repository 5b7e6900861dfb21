"""A network of a few thousand parameters, for tests, smoke runs and the demo.

Without batch normalization, every rank of a synchronous job computes the same scores.
"""

from typing import Any

from bench.training.mxnet_shim import mx

nn = mx.gluon.nn


def tiny(*, num_classes: int, **_: Any) -> Any:
    """Build the network: (N, 3, H, W) images to (N, num_classes) scores.

    H and W must be at least 32.
    """
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(16, 7, strides=4, padding=3, activation="relu"),
        nn.MaxPool2D(2),
        nn.Conv2D(32, 3, padding=1, activation="relu"),
        nn.MaxPool2D(2),
        nn.Conv2D(64, 3, padding=1, activation="relu"),
        nn.GlobalAvgPool2D(),
        nn.Flatten(),
        nn.Dense(num_classes),
    )
    return net
