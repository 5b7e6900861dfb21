"""PyTorch layers with the arguments and results of MXNet's.

Input channels are inferred. The module of a network's MXNet version names its source. Two results
differ slightly: PyTorch's running variances are unbiased, MXNet's are not; and dropout draws other
numbers.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional


def chain(*layers: nn.Module) -> nn.Module:
    """Apply layers one after another."""
    return nn.Sequential(*layers)


def conv(
    channels: int,
    kernel: int | tuple[int, int] = 1,
    *,
    strides: int = 1,
    padding: int | tuple[int, int] = 0,
    groups: int = 1,
) -> nn.Module:
    """Convolution without a bias."""
    return nn.LazyConv2d(channels, kernel, strides, padding, groups=groups, bias=False)


def biased(
    channels: int,
    kernel: int | tuple[int, int] = 1,
    strides: int = 1,
    padding: int | tuple[int, int] = 0,
) -> nn.Module:
    """Convolution with a bias."""
    return nn.LazyConv2d(channels, kernel, strides, padding)


def dense(units: int) -> nn.Module:
    """Fully connected layer."""
    return nn.LazyLinear(units)


def relu() -> nn.Module:
    """ReLU that overwrites its input, which no layer here needs again."""
    return nn.ReLU(inplace=True)


class _FixedScaleNorm(nn.BatchNorm2d):  # type: ignore[misc]
    """Batch normalization with scale 1, whatever its array contains.

    As in the MXNet version, the array has a gradient of zeros and goes through the exchange.
    """

    def forward(self, x: Any) -> Any:
        return functional.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight * 0 + 1,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )


class _LazyFixedScaleNorm(nn.LazyBatchNorm2d):  # type: ignore[misc]
    cls_to_become = _FixedScaleNorm


def batch_norm(epsilon: float, *, fix_gamma: bool = False) -> nn.Module:
    """Batch normalization; its running averages keep 0.9 of their value, as in MXNet."""
    kind = _LazyFixedScaleNorm if fix_gamma else nn.LazyBatchNorm2d
    return kind(eps=epsilon, momentum=0.1)


def convolution(
    channels: int,
    kernel: int | tuple[int, int] = 1,
    *,
    strides: int = 1,
    padding: int | tuple[int, int] = 0,
    groups: int = 1,
) -> nn.Module:
    """Convolution, batch normalization with a fixed scale, ReLU."""
    return chain(
        conv(channels, kernel, strides=strides, padding=padding, groups=groups),
        batch_norm(1e-3, fix_gamma=True),
        relu(),
    )


def max_pool(kernel: int, strides: int, padding: int = 0) -> nn.Module:
    """Largest value of each square."""
    return nn.MaxPool2d(kernel, strides, padding)


def average_pool(kernel: int, strides: int, padding: int = 0) -> nn.Module:
    """Average of each square; the border counts as zeros."""
    return nn.AvgPool2d(kernel, strides, padding)


def averaged() -> nn.Module:
    """Average of each channel, as (N, C)."""
    return chain(nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Fork(nn.Module):  # type: ignore[misc]
    """Several layers applied to one input."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Any) -> list[Any]:
        """Return one output per branch; a fork at the end of a branch adds several."""
        outputs: list[Any] = []
        for branch in self.branches:
            made = branch(x)
            outputs += made if isinstance(made, list) else [made]
        return outputs


class Block(Fork):
    """Branches whose output channels are concatenated once."""

    def forward(self, x: Any) -> Any:
        """(N, C, H, W) to (N, channels of all branches, H', W')."""
        return torch.cat(super().forward(x), 1)
