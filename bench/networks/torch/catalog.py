"""Build a network of `bench.networks.catalog` in PyTorch, with its first weights."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from bench.networks.catalog import NETWORKS
from bench.networks.torch import (
    inception_bn,
    inception_v3,
    inception_v4,
    mobilenet,
    residual,
    sequences,
)

_BUILDERS: dict[str, Callable[..., Any]] = {
    "alexnet": sequences.alexnet,
    "googlenet": inception_bn.googlenet,
    "inception-bn": inception_bn.inception_bn,
    "inception-v3": inception_v3.inception_v3,
    "inception-v4": inception_v4.inception_v4,
    "inception-resnet-v2": inception_v4.inception_resnet_v2,
    "resnet": residual.resnet,
    "resnet-v1": residual.resnet_v1,
    "resnext": residual.resnext,
    "vgg": sequences.vgg,
    "mobilenet": mobilenet.mobilenet,
    "mobilenetv2": mobilenet.mobilenet_v2,
    "lenet": sequences.lenet,
    "mlp": sequences.mlp,
    "tiny": sequences.tiny,
}


def shaped(
    family: str, *, num_classes: int, num_layers: int | None, image_shape: tuple[int, ...]
) -> Any:
    """Return the network with the shapes of its arrays, and no values (device "meta").

    Raises RuntimeError if the images are too small for it.
    """
    with torch.device("meta"):
        net = _BUILDERS[family](
            num_classes=num_classes, num_layers=num_layers, image_shape=image_shape
        )
        # The first image determines the shapes. Without training, one image suffices.
        with torch.no_grad():
            net.eval()(torch.zeros(1, *image_shape))
    return net.train()


def initialized(net: Any, *, initializer: str, seed: int, device: Any = "cpu") -> Any:
    """Give the network its first weights, from the seed, and return it on the device.

    The distributions are those of MXNet's initializers; the numbers differ. As there, biases,
    shifts and running means are 0, scales and running variances are 1.
    """
    net = net.to_empty(device="cpu")
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.reset_parameters()
            elif isinstance(layer, nn.Conv2d | nn.Linear):
                _initialize(layer.weight, initializer, draw)
                if layer.bias is not None:
                    layer.bias.zero_()
    return net.to(device)


def default_initializer(family: str, initializer: str) -> str:
    """Return the initializer's name; "default" is the family's, as in upstream."""
    return NETWORKS[family].initializer if initializer == "default" else initializer


def _initialize(weight: Any, initializer: str, draw: Any) -> None:
    around = math.prod(weight.shape[2:])
    read, reading = weight.shape[1] * around, weight.shape[0] * around
    if initializer == "one":
        weight.fill_(1)
    elif initializer == "zero":
        weight.zero_()
    elif initializer == "orthogonal":
        nn.init.orthogonal_(weight, 1.414, generator=draw)
    elif initializer in _SPREADS:
        weight.normal_(0, _SPREADS[initializer](read, reading), generator=draw)
    else:
        edge = 0.07 if initializer == "uniform" else math.sqrt(6 / (read + reading))
        weight.uniform_(-edge, edge, generator=draw)


# Standard deviations of the normal distributions, by what a value reads and what reads it.
_SPREADS: dict[str, Callable[[int, int], float]] = {
    "normal": lambda *_: 0.01,
    "he": lambda read, _: math.sqrt(2 / read),
    "msra": lambda read, reading: math.sqrt(2 / (1 + 0.25**2) * 2 / (read + reading)),
}


def arrays(net: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the trained arrays, in the order of MXNet's."""
    yield from net.named_parameters()


def averages(net: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the running averages."""
    yield from ((name, one) for name, one in net.named_buffers() if "running" in name)
