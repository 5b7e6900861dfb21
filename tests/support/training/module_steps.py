"""Ten steps of a network by mxscale's worker or by upstream's Module.

`python -m tests.support.training.module_steps WAY WORDS...` prints the losses as JSON. A launcher
that starts one program on every host makes it a job of several workers.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.engines import server

# mxscale's workers sign messages to servers, so the servers must be mxscale's too.
if sys.argv[1:2] == ["ours"] and os.environ.get("DMLC_ROLE") in {"server", "scheduler"}:
    server.main()

from bench.training.mxnet_shim import mx
from bench.training.options import Options, parse

STEPS = 10
Steps = tuple[list[float], dict[str, Any]]


def batch(options: Options, rank: int, number: int) -> tuple[Any, Any]:
    """Return images and labels of a step; classes can be learned from the images."""
    draw = np.random.default_rng((7, rank, number))
    labels = draw.integers(0, options.num_classes, options.batch_size)
    images = draw.normal(0, 1, (options.batch_size, *options.image_shape))
    images += (labels / options.num_classes)[:, None, None, None]
    return mx.nd.array(images), mx.nd.array(labels)


def without_dropout(net: Any) -> Any:
    """Return the network without dropout, whose random draws differ by program."""

    def off(block: Any) -> None:
        if isinstance(block, mx.gluon.nn.Dropout):
            block._rate = 0

    return net.apply(off)


def ours(options: Options, steps: int = STEPS) -> Steps:
    """Return losses and final weights of mxscale's worker."""
    from bench.training.mxnet.worker import build_worker, step  # noqa: PLC0415

    worker = build_worker(options)
    without_dropout(worker.net)
    losses = []
    for number in range(steps):
        images, labels = batch(options, worker.rank, number)
        losses.append(float(step(worker, ([images], [labels]))[0].mean().asscalar()))
    mx.nd.waitall()
    arrays = worker.net.collect_params().items()
    return losses, {name: one.data().asnumpy() for name, one in arrays}


def module(options: Options, steps: int = STEPS) -> Steps:
    """Return losses and final weights of upstream's common/fit.py."""
    from bench.training.mxnet.checkpoint import symbol  # noqa: PLC0415
    from bench.training.mxnet.worker import build_network  # noqa: PLC0415

    net = without_dropout(build_network(options, [mx.cpu()]))
    made = mx.mod.Module(symbol(net))
    shape = (options.batch_size, *options.image_shape)
    made.bind([("data", shape)], [("softmax_label", shape[:1])])
    weights = {name: one.data() for name, one in net.collect_params().items()}
    auxiliary = {name: weights.pop(name) for name in made._symbol.list_auxiliary_states()}
    made.init_params(arg_params=weights, aux_params=auxiliary)
    store = mx.kv.create(options.kv_store)
    settings = {"learning_rate": options.lr, "momentum": options.mom, "wd": options.wd}
    made.init_optimizer(store, "sgd", {**settings, "lr_scheduler": None, "multi_precision": True})
    losses = []
    for number in range(steps):
        images, labels = batch(options, store.rank, number)
        made.forward_backward(mx.io.DataBatch([images], [labels]))
        parts = made.get_outputs()[0].asnumpy()
        chosen = parts[np.arange(len(parts)), labels.asnumpy().astype(int)]
        losses.append(float(-np.log(chosen).mean()))
        made.update()
    mx.nd.waitall()  # otherwise moving averages are read before their update
    arguments, auxiliary = made.get_params()
    return losses, {name: one.asnumpy() for name, one in {**arguments, **auxiliary}.items()}


WAYS: dict[str, Callable[[Options], Steps]] = {
    "ours": ours,
    "module": module,
}

if __name__ == "__main__":
    found, _ = WAYS[sys.argv[1]](parse(sys.argv[2:]))
    os.write(1, f"{json.dumps(found)}\n".encode())  # one part; another worker has the other
