"""Mode bandwidth: push and pull of a network's arrays alone (--bandwidth 1).

Every step pushes each array of the network, in their own sizes, and pulls it; the servers add up
what the workers push and do nothing else with it.
"""

from typing import Any

from bench.training.kvstore import barrier, open_kvstore
from bench.training.loop import Stopwatch, TrainingSummary, budget_of, measure, stop_reason
from bench.training.mxnet_shim import mx
from bench.training.options import Options
from bench.training.worker import build_network


def time_transfers(options: Options) -> TrainingSummary:
    """Moves the arrays window by window; what a window calls images are bytes each way."""
    store: Any = open_kvstore(options)
    arrays = _arrays(options)
    for key, (given, _) in enumerate(arrays):
        store.init(key, given)
    each_way = sum(given.size * 4 for given, _ in arrays)
    facts = {
        "num_workers": store.num_workers,
        "worker_batch": options.batch_size,
        "bytes_each_way": each_way,
    }
    budget, steps = budget_of(options), options.steps_per_window

    def window(index: int) -> dict[str, Any]:
        return _timed_window(store, arrays, steps).window(index, each_way * steps, steps)

    return measure(
        facts,
        window,
        lambda windows: stop_reason(store, windows, budget, options.warmup_windows),
        store.rank,
    )


def _arrays(options: Options) -> list[tuple[Any, Any]]:
    """Of each array of the network: what is pushed, and where it is pulled to.

    They are zeros, which stay zeros however often they are added up.
    """
    net = build_network(options, [mx.cpu()])
    shapes = [p.shape for p in net.collect_params().values() if p.grad_req != "null"]
    return [(mx.nd.zeros(shape), mx.nd.zeros(shape)) for shape in shapes]


def _timed_window(store: Any, arrays: list[tuple[Any, Any]], steps: int) -> Stopwatch:
    """The clock of a window in which the arrays went to the servers and back so often."""
    mx.nd.waitall()
    barrier(store)
    clock = Stopwatch()
    for _ in range(steps):
        for key, (given, taken) in enumerate(arrays):
            store.push(key, given, priority=-key)
            store.pull(key, out=taken, priority=-key)
        mx.nd.waitall()
    return clock
