"""Mode bandwidth (--bandwidth 1): push and pull a network's arrays only.

Every step pushes and pulls each array of the network at its own size. The servers sum the workers'
arrays and do nothing else with them.
"""

from typing import Any

from bench.kvstores import find_kvstore
from bench.statistics.stopwatch import Stopwatch
from bench.training.loop import TrainingSummary, budget_of, measure, stop_reason
from bench.training.mxnet.kvstore import barrier, broadcast_from_first, open_kvstore
from bench.training.mxnet.worker import build_network
from bench.training.mxnet_shim import mx
from bench.training.options import Options
from bench.training.progress import ProgressLines


def time_transfers(options: Options) -> TrainingSummary:
    """Time the transfers by window; `images` of a window are bytes in each direction."""
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
    comm = find_kvstore(options.kv_store)
    budget, steps = budget_of(options, comm), options.steps_per_window

    def broadcast(number: int, value: float) -> float:
        return broadcast_from_first(store, word=number, value=value)

    def window(index: int) -> dict[str, Any]:
        return _timed_window(store, arrays, steps).window(index, each_way * steps, steps)

    return measure(
        facts,
        window,
        lambda windows: stop_reason(broadcast, windows, budget, options.warmup_windows),
        ProgressLines(
            options.warmup_windows + budget.windows,
            may_end_early=bool(budget.precision or budget.seconds),
        ),
        store.rank,
    )


def _arrays(options: Options) -> list[tuple[Any, Any]]:
    """Return the array to push and the array to pull into, for each array.

    They are zeros, which stay zeros when they are summed.
    """
    net = build_network(options, [mx.cpu()])
    shapes = [p.shape for p in net.collect_params().values() if p.grad_req != "null"]
    return [(mx.nd.zeros(shape), mx.nd.zeros(shape)) for shape in shapes]


def _timed_window(store: Any, arrays: list[tuple[Any, Any]], steps: int) -> Stopwatch:
    """Push and pull all arrays `steps` times; return the stopwatch."""
    mx.nd.waitall()
    barrier(store)
    clock = Stopwatch()
    for _ in range(steps):
        for key, (given, taken) in enumerate(arrays):
            store.push(key, given, priority=-key)
            store.pull(key, out=taken, priority=-key)
        mx.nd.waitall()
    return clock
