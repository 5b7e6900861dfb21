"""Upstream's networks for MNIST: LeNet (LeCun et al. 1998), and a perceptron."""

from typing import Any

from bench.training.mxnet_shim import mx

nn = mx.gluon.nn


def lenet(*, num_classes: int, **_: Any) -> Any:
    """Build the network: (N, 1, 28, 28) images to (N, num_classes) scores.

    It takes other sizes from 16 pixels on.
    """
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(20, 5, activation="tanh"),
        nn.MaxPool2D(2),
        nn.Conv2D(50, 5, activation="tanh"),
        nn.MaxPool2D(2),
        nn.Dense(500, activation="tanh"),
        nn.Dense(num_classes),
    )
    return net


def mlp(*, num_classes: int, **_: Any) -> Any:
    """Build the network: images of any shape to (N, num_classes) scores."""
    net = nn.HybridSequential()
    net.add(
        nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(num_classes)
    )
    return net
