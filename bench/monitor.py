"""Looks inside a network in training (--monitor N)."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bench.mxnet_import import mx
from im2rec_tools.terminal import echo

if TYPE_CHECKING:
    from bench.worker import Worker


def look(worker: "Worker", batch: Any, number: int) -> None:
    """Prints the root mean square of all weights, gradients and the scores, every so many batches.

    It looks before the weights move; the gradients are summed over the batch of this worker's first
    device. Waits for MXNet's work, so windows with a look in them are no measurement.
    """
    every = worker.options.monitor
    if not every or number % every:
        return
    for name, value in _seen(worker, batch):
        echo(f"rank {worker.rank} batch {number} {name}: {_size(value):.6g}", err=True)
    sys.stderr.flush()


def _seen(worker: "Worker", batch: Any) -> Iterator[tuple[str, Any]]:
    for name, parameter in worker.net.collect_params().items():
        yield name, parameter.data(worker.contexts[0])
        if parameter.grad_req != "null":
            yield f"{name} gradient", parameter.grad(worker.contexts[0])
    yield "scores", worker.net(batch[0][0])


def _size(value: Any) -> float:
    return float(mx.nd.norm(value.astype("float32")).asscalar() / value.size**0.5)
