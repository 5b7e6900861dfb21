"""The network of a job, with its first weights on the devices."""

import math
from typing import Any

import numpy as np

from bench import checkpoint, pretrained
from bench.errors import SpecError
from bench.mxnet_import import mx
from bench.networks import NETWORKS
from bench.options import Options


class NetWithLoss(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Network and loss as one graph, so that one cached operator runs both.

    With `counted` it gives too whether each image's best score is its label's: the accuracy.
    """

    def __init__(self, net: Any, *, counted: bool = False) -> None:
        super().__init__()
        self.net = net
        self.counted = counted
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, data: Any, label: Any) -> Any:  # noqa: N803 - Gluon's name
        """The loss of each image, and 1 or 0 for a right or wrong guess if these are counted."""
        scores = self.net(data)
        loss = self.loss(scores, label)
        if not self.counted:
            return loss
        guessed = F.argmax(F.cast(F.BlockGrad(scores), "float32"), axis=1)
        return [loss, F.broadcast_equal(guessed, F.cast(label, "float32"))]


def network(options: Options, devices: list[Any]) -> Any:
    """The network on these devices, with the same weights on every rank.

    They are drawn from the seed, or a checkpoint's.
    """
    if options.dtype == "bfloat16":
        from mxnet.contrib import amp  # noqa: PLC0415 - loaded for this alone

        amp.init(target_dtype="bfloat16")
    mx.random.seed(options.seed)
    with mx.name.NameManager():  # names must not depend on what was built before
        net = _kept(options, devices) if options.pretrained else _new(options, devices)
    net.cast(options.array_dtype)
    # Weights get their shapes, and are drawn, when an image first passes.
    _pass(net, options, devices[0])
    if options.load_epoch:
        checkpoint.load(net, options.model_prefix, options.load_epoch)
    return net


def _pass(net: Any, options: Options, device: Any) -> None:
    image = mx.nd.zeros((1, *options.image_shape), ctx=device, dtype=options.array_dtype)
    try:
        net(image).wait_to_read()
    except (mx.MXNetError, ValueError) as error:
        if "exceed" not in str(error):  # "kernel size (3) exceeds input"
            raise
        shape = ",".join(map(str, options.image_shape))
        raise SpecError(
            f"--image-shape {shape}: too small for {options.network}, whose layers leave nothing "
            f"of it; its own is {','.join(map(str, NETWORKS[options.network].image_shape))}"
        ) from error


def _compose(block: Any) -> None:
    if hasattr(block, "composed"):
        block.composed = True


def _new(options: Options, devices: list[Any]) -> Any:
    net = NETWORKS[options.network].build(
        num_classes=options.num_classes,
        num_layers=options.num_layers,
        image_shape=options.image_shape,
    )
    # A layer's own initializer would be taken in place of the one that is asked for.
    for weight in net.collect_params(".*weight").values():
        weight.init = None
    if devices[0].device_type == "cpu" and options.dtype == "float32":
        net.apply(_compose)
    net.initialize(_initializer(options), ctx=devices)
    return net


def _kept(options: Options, devices: list[Any]) -> Any:
    """The layers of a checkpoint, and behind them a last one of as many classes as now."""
    net = mx.gluon.nn.HybridSequential(prefix="")
    net.add(
        pretrained.features(
            options.pretrained,
            options.pretrained_epoch,
            options.layer_before_fullc,
            devices,
        ),
        mx.gluon.nn.Dense(options.num_classes, prefix="fine_tuned_"),
    )
    net[1].initialize(_initializer(options), ctx=devices)
    return net


class _Orthogonal(mx.init.Orthogonal):  # type: ignore[misc]
    """MXNet's own hands a NumPy number to an operator as a size, which NumPy 2 spells otherwise."""

    def _init_weight(self, _: Any, arr: Any) -> None:
        rows, columns = arr.shape[0], math.prod(arr.shape[1:])
        drawn = mx.nd.random.uniform(-1, 1, shape=(rows, columns)).asnumpy()
        left, _, right = np.linalg.svd(drawn, full_matrices=False)
        made = self.scale * (left if left.shape == drawn.shape else right)
        arr[:] = mx.nd.from_numpy(made.reshape(arr.shape))


def _initializer(options: Options) -> Any:
    init = mx.init
    name = options.initializer
    if name == "default":
        name = NETWORKS[options.network].initializer
    return {
        "he": init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2),
        "xavier": init.Xavier(),
        "msra": init.MSRAPrelu(),
        "orthogonal": _Orthogonal(),
        "normal": init.Normal(),
        "uniform": init.Uniform(),
        "one": init.One(),
        "zero": init.Zero(),
    }[name]
