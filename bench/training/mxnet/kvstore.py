"""A worker's kvstore client: opening, compression, votes, barrier."""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from bench.engines import server_commands
from bench.engines.server_updates import FIRST_SUM, MOST_SLOTS, slots, stride
from bench.errors import SpecError, error_line
from bench.kvstores import ALL_REDUCE, VAN_VARIABLE, check_van, find_kvstore
from bench.training.mxnet_shim import mx
from bench.training.options import Options

# Above every parameter's key: the ballots of `any_worker` and the first worker's broadcasts.
_FIRST_BALLOT, _FIRST_BROADCAST = FIRST_SUM, 1_500_000_000
# MXNet chooses a server by key * 9973 in 32 bits, which must not be negative.
_FIRST_GATHER = 1_100_000_000
# Bits of a gathered number.
_BITS = 53
_ABOVE_THRESHOLD = 1e30
# kController and kSetMultiPrecision in MXNet.
_OPTIMIZER, _MULTI_PRECISION = 0, 1


def compress(store: Any, kind: str, threshold: float) -> None:
    """Enable gradient compression in a distributed kvstore."""
    store.set_gradient_compression({"type": kind, "threshold": threshold})

    # Trainers call pushpull, a single request that MXNet rejects with compression.
    def push_and_pull(key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        store.push(key, value, priority=priority)
        store.pull(key, out=value if out is None else out, priority=priority)

    store.pushpull = push_and_pull


def open_kvstore(options: Options) -> Any | None:
    """Open the job's kvstore.

    Returns None for one worker on one device, which has nothing to exchange; upstream uses a
    kvstore even then. Returns after the rendezvous of all workers, servers and the scheduler.
    Raises SpecError if the job is not the requested one.
    """
    if options.kv_store == "nccl" and not mx.runtime.Features().is_enabled("NCCL"):
        raise SpecError(
            error_line(
                "--kv-store nccl",
                problem="this MXNet was built without NCCL",
                fix="Use --kv-store device",
            )
        )
    if options.kv_store == ALL_REDUCE:
        return _open_all_reduce(options)
    if not find_kvstore(options.kv_store).servers:
        used = options.devices > 1 or options.costs == "upstream"
        return mx.kv.create(options.kv_store) if used else None
    van = os.environ.get(VAN_VARIABLE, "")
    check_van([f"{VAN_VARIABLE}={van}"], options.kv_store, options.gc_type)
    store = mx.kv.create(options.kv_store)
    _check_workers(options, store.num_workers)
    if options.gc_type != "none":
        compress(store, options.gc_type, options.gc_threshold)
    sign_optimizer(store)
    return store


def _check_workers(options: Options, count: int) -> None:
    """Raise SpecError unless the job has the requested number of workers."""
    if options.expect_workers not in {0, count}:
        expected = f"{options.expect_workers} workers in the job"
        raise SpecError(error_line("--expect-workers", expected=expected, got=count))


def _open_all_reduce(options: Options) -> Any:
    """Return the workers' all-reduce; SpecError without PyTorch."""
    if not find_spec("torch"):
        expected, fix = "PyTorch, for its gloo", "Run 'make torch' in the checkout"
        where = f"--kv-store {options.kv_store}"
        raise SpecError(error_line(where, expected=expected, got="none", fix=fix))
    from bench.training.mxnet.all_reduce import AllReduce  # noqa: PLC0415 - it loads PyTorch
    from bench.training.torch.rendezvous import join  # noqa: PLC0415

    job = join()
    _check_workers(options, job.num_workers)
    return AllReduce(job, options)


def _job_of(store: Any) -> Any | None:
    """Return the job of a kvstore without servers; None of another kvstore."""
    return getattr(store, "job", None)


def sign_optimizer(store: Any) -> None:
    """Make a distributed kvstore sign the optimizer it sends.

    The servers of mxscale require it.
    """

    def set_optimizer(optimizer: Any) -> None:
        body = server_commands.signed(optimizer, server_commands.secret())
        store._send_command_to_servers(_OPTIMIZER, body)
        if optimizer.multi_precision:
            store._send_command_to_servers(_MULTI_PRECISION, "")

    store.set_optimizer = set_optimizer


def any_worker(store: Any | None, *, ballot: int, vote: bool) -> bool:
    """Return whether any worker votes yes.

    All workers must call this at the same step, with a new `ballot`.
    """
    if job := _job_of(store):
        return bool(job.any(vote))
    if store is None or not find_kvstore(store.type).servers:
        return vote
    key = _FIRST_BALLOT + ballot
    result = mx.nd.zeros(1)
    store.init(key, result)
    # Large enough to exceed any compression threshold.
    store.push(key, mx.nd.full(1, vote * _ABOVE_THRESHOLD))
    # An asynchronous kvstore would answer before the others have voted.
    mx.nd.waitall()
    barrier(store)
    store.pull(key, out=result)
    return bool(result.asscalar() != 0)


def sums_over_workers(
    store: Any | None, numbers: Sequence[int], *, word: int, rank: int, workers: int
) -> tuple[int, ...]:
    """Return the sum over all workers of each whole number, 0 to 2**53.

    All workers must call this at the same step, with a new `word`. Each number goes as bits in the
    rank's own row: compression keeps only the sign of a push.
    """
    if job := _job_of(store):
        return tuple(job.sums(numbers))
    if store is None or not find_kvstore(store.type).servers:
        return tuple(numbers)
    own = np.zeros((workers, len(numbers), _BITS), np.float32)
    own[rank] = [[number >> bit & 1 for bit in range(_BITS)] for number in numbers]
    own *= _ABOVE_THRESHOLD
    result = mx.nd.zeros(own.shape)
    store.init(_FIRST_GATHER + word, result)
    store.push(_FIRST_GATHER + word, mx.nd.from_numpy(own, zero_copy=False))
    # An asynchronous kvstore would answer before the others have pushed.
    mx.nd.waitall()
    barrier(store)
    store.pull(_FIRST_GATHER + word, out=result)
    found = (result.asnumpy() != 0).astype(np.int64) << np.arange(_BITS)
    return tuple(map(int, found.sum(axis=(0, 2))))


class ServerStates:
    """The optimizer's states on the servers of a synchronous job."""

    def __init__(self, store: Any, optimizer: Any, shapes: Mapping[int, tuple[int, ...]]) -> None:
        """Prepare for these weights, by index."""
        self._store, self._stride = store, stride(int(os.environ["DMLC_NUM_SERVER"]))
        self._shapes = {
            (index, slot): shape
            for index, shape in shapes.items()
            for slot, _ in enumerate(slots(optimizer.create_state(index, mx.nd.zeros(shape))))
        }
        self._known: set[int] = set()

    def read(self) -> dict[tuple[int, int], Any]:
        """Return each array by its weight's index and its number.

        All workers must call this.
        """
        found = {}
        for (index, slot), shape in self._shapes.items():
            key = index + (1 + slot) * self._stride
            found[index, slot] = mx.nd.zeros(shape)
            self._push(key, mx.nd.zeros(shape))
            self._store.pull(key, out=found[index, slot])
        mx.nd.waitall()
        return found

    def restore(self, states: Mapping[tuple[int, int], Any], *, rank: int) -> None:
        """Set all arrays to those of the first worker.

        All workers must call this.
        """
        for (index, slot), shape in self._shapes.items():
            key = index + (1 + MOST_SLOTS + slot) * self._stride
            self._push(key, mx.nd.zeros(shape) if rank else states[index, slot])
        mx.nd.waitall()
        barrier(self._store)

    def _push(self, key: int, value: Any) -> None:
        if key not in self._known:
            self._known.add(key)
            self._store.init(key, mx.nd.zeros(value.shape))
        self._store.push(key, value)


def broadcast_from_first(store: Any, *, word: int, value: float) -> float:
    """Return the first worker's value.

    All workers must call this with a new `word`. The first worker's value initializes the key,
    independent of the optimizer on the servers.
    """
    if job := _job_of(store):
        return float(job.broadcast(value))
    key, result = _FIRST_BROADCAST + word, mx.nd.zeros(1)
    store.init(key, mx.nd.full(1, value))
    store.pull(key, out=result)
    return float(result.asscalar())


def barrier(store: Any | None) -> None:
    """Wait until every worker of the job has called this; at once without a kvstore."""
    if job := _job_of(store):
        job.barrier()
    elif store is not None:
        store._barrier()  # MXNet has no public method
