"""Layers that upstream's networks share and that differ from Gluon's."""

from typing import Any

from bench.training.mxnet_shim import mx

nn = mx.gluon.nn


def batch_norm(epsilon: float, *, fix_gamma: bool = False) -> Any:
    """Batch normalization with upstream's epsilon.

    `fix_gamma`: the scale is 1, whatever its array contains. As in upstream's Module, the array has
    a gradient of zeros and goes through the kvstore: Gluon's scale=False would exchange fewer
    arrays than upstream.
    """
    layer = nn.BatchNorm(epsilon=epsilon)
    layer._kwargs["fix_gamma"] = fix_gamma  # no argument sets this alone
    return layer


def fixed_scales(net: Any) -> list[str]:
    """Return the names of the scales that are 1, whatever their arrays contain."""
    found: list[str] = []

    def add(layer: Any) -> None:
        if isinstance(layer, nn.BatchNorm) and layer._kwargs["fix_gamma"]:
            found.append(layer.gamma.name)

    net.apply(add)
    return found


def convolution(
    channels: int,
    kernel: int | tuple[int, int] = 1,
    *,
    strides: int = 1,
    padding: int | tuple[int, int] = 0,
    groups: int = 1,
) -> Any:
    """Convolution without bias, batch normalization with a fixed scale, ReLU."""
    return chain(
        nn.Conv2D(channels, kernel, strides, padding, groups=groups, use_bias=False),
        batch_norm(1e-3, fix_gamma=True),
        nn.Activation("relu"),
    )


def chain(*layers: Any) -> Any:
    """Apply layers one after another."""
    made = nn.HybridSequential(prefix="")
    made.add(*layers)
    return made


class Fork(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Several layers applied to one input."""

    def __init__(self, *branches: Any) -> None:
        super().__init__(prefix="")
        for branch in branches:
            self.register_child(branch)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon passes F by this name
        """Return one output per branch; a fork at the end of a branch adds several."""
        outputs: list[Any] = []
        for branch in self._children.values():
            made = branch(x)
            outputs += made if isinstance(made, list | tuple) else [made]
        return outputs


class Block(Fork):
    """Branches whose output channels are concatenated once."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon passes F by this name
        """(N, C, H, W) to (N, channels of all branches, H', W')."""
        return F.Concat(*super().hybrid_forward(F, x), dim=1)


class Classifier(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Image features and one fully connected layer that scores them."""

    def __init__(self, num_classes: int, prefix: str) -> None:
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.output = nn.Dense(num_classes)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 - Gluon passes F by this name
        """(N, C, H, W) images to (N, num_classes) scores."""
        return self.output(self.features(x))
