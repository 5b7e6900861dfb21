"""A worker's weights as a whole."""

import hashlib
from typing import Any

import numpy as np

from bench.mxnet_import import mx
from bench.worker import Worker


def trained(worker: Worker) -> list[Any]:
    """The parameters that training changes."""
    return [one for one in worker.net.collect_params().values() if one.grad_req != "null"]


def gradient_bytes(worker: Worker) -> int:
    """Bytes of the gradients of one step."""
    device = worker.contexts[0]
    return sum(one.data(device).size * np.dtype(one.dtype).itemsize for one in trained(worker))


def digest(worker: Worker) -> str:
    """A hash of the weights; FloatingPointError where they are no numbers any more."""
    mx.nd.waitall()
    found = hashlib.blake2b(digest_size=8)
    for parameter in trained(worker):
        values = parameter.data(worker.contexts[0]).asnumpy()
        if not np.isfinite(values).all():
            raise FloatingPointError(
                f"weights are no numbers any more ({parameter.name}); try a smaller --lr"
            )
        found.update(values.data)
    return found.hexdigest()
