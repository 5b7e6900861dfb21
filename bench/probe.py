"""How long a worker computes by itself, without the others it waits for in every window."""

import time

from bench import inputs
from bench.kvstores import is_async
from bench.mxnet_import import mx
from bench.store_client import meet
from bench.worker import Worker, gradients

_PROBES = 8


def is_due(worker: Worker, windows: int) -> bool:
    """Whether the window after so many, warm-up included, is one to probe before.

    Only a job of several workers that wait for each other hides which of them is slow. Where images
    are read, a probe would give their reader time that it does not have in training.
    """
    options = worker.options
    waits = worker.num_workers > 1 and not is_async(options.kv_store)
    measured = windows - options.warmup_windows
    return options.benchmark and waits and 0 <= measured < _PROBES


def own_seconds(worker: Worker, batch: inputs.Batch) -> float:
    """Seconds of forward and backward alone; nothing is shared and no weight changes.

    Returns when every worker has done the same, so that the next window begins for all at once.
    """
    mx.nd.waitall()
    start = time.perf_counter()
    gradients(worker, batch)
    mx.nd.waitall()
    seconds = time.perf_counter() - start
    meet(worker.kvstore)
    return seconds
