"""A worker's kvstore client: opening, compression, votes, barrier."""

import os
from typing import Any

from bench.engines import server_commands
from bench.errors import SpecError, error_line
from bench.kvstores import VAN_VARIABLE, check_van, is_distributed
from bench.training.mxnet_shim import mx
from bench.training.options import Options

# Above every parameter's key: the ballots of `any_worker` and the first worker's broadcasts.
_FIRST_BALLOT, _FIRST_BROADCAST = 1_000_000_000, 1_500_000_000
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
    if not is_distributed(options.kv_store):
        used = options.devices > 1 or options.costs == "upstream"
        return mx.kv.create(options.kv_store) if used else None
    van = os.environ.get(VAN_VARIABLE, "")
    check_van([f"{VAN_VARIABLE}={van}"], options.kv_store, options.gc_type)
    store = mx.kv.create(options.kv_store)
    if options.expect_workers not in {0, store.num_workers}:
        raise SpecError(
            error_line(
                "--expect-workers",
                expected=f"{options.expect_workers} workers in the job",
                got=store.num_workers,
            )
        )
    if options.gc_type != "none":
        compress(store, options.gc_type, options.gc_threshold)
    sign_optimizer(store)
    return store


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

    All workers must call this at the same step. Servers apply the optimizer to every push, so a sum
    cannot be read back. A new key that starts at zero changes only if a worker pushed a value other
    than zero.
    """
    if store is None or not is_distributed(store.type):
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


def broadcast_from_first(store: Any, *, word: int, value: float) -> float:
    """Return the first worker's value.

    All workers must call this with a new `word`. The first worker's value initializes the key,
    independent of the optimizer on the servers.
    """
    key, result = _FIRST_BROADCAST + word, mx.nd.zeros(1)
    store.init(key, mx.nd.full(1, value))
    store.pull(key, out=result)
    return float(result.asscalar())


def barrier(store: Any) -> None:
    """Wait until every worker of the job has called this."""
    store._barrier()  # MXNet has no public method
