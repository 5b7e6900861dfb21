"""A worker's kvstore client: opening, compression, votes, barrier."""

from typing import Any

from bench.engines import server_commands
from bench.errors import SpecError
from bench.kvstores import is_distributed
from bench.training.mxnet_shim import mx
from bench.training.options import Options

# Above every parameter's key: the ballots of `any_votes`, and what the first worker says.
_FIRST_BALLOT, _FIRST_BROADCAST = 1_000_000_000, 1_500_000_000
_ABOVE_THRESHOLD = 1e30
# What MXNet calls kController and kSetMultiPrecision.
_OPTIMIZER, _MULTI_PRECISION = 0, 1


def compress(store: Any, kind: str, threshold: float) -> None:
    """Has a distributed store compress what is pushed from now on."""
    store.set_gradient_compression({"type": kind, "threshold": threshold})

    # What trainers call, MXNet refuses once gradients are compressed: it is one request there.
    def push_and_pull(key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        store.push(key, value, priority=priority)
        store.pull(key, out=value if out is None else out, priority=priority)

    store.pushpull = push_and_pull


def open_kvstore(options: Options) -> Any | None:
    """The store of this job, or None if one worker on one device has nothing to share.

    Upstream uses the store even then. Returns after every worker, server and the scheduler have
    met. Raises SpecError where the job cannot be the one that was asked for.
    """
    if options.kv_store == "nccl" and not mx.runtime.Features().is_enabled("NCCL"):
        raise SpecError("--kv-store nccl: this MXNet was built without NCCL; use device")
    if not is_distributed(options.kv_store):
        used = options.devices > 1 or options.costs == "upstream"
        return mx.kv.create(options.kv_store) if used else None
    store = mx.kv.create(options.kv_store)
    if options.expect_workers not in {0, store.num_workers}:
        raise SpecError(
            f"expected {options.expect_workers} workers in this job, the store has "
            f"{store.num_workers}"
        )
    if options.gc_type != "none":
        compress(store, options.gc_type, options.gc_threshold)
    sign_optimizer(store)
    return store


def sign_optimizer(store: Any) -> None:
    """Have a distributed store sign the optimizer that it sends, as servers of ours expect."""

    def set_optimizer(optimizer: Any) -> None:
        body = server_commands.signed(optimizer, server_commands.secret())
        store._send_command_to_servers(_OPTIMIZER, body)
        if optimizer.multi_precision:
            store._send_command_to_servers(_MULTI_PRECISION, "")

    store.set_optimizer = set_optimizer


def any_worker(store: Any | None, *, ballot: int, vote: bool) -> bool:
    """Whether any worker of the job votes yes; all of them ask at the same step.

    The servers apply the optimiser to whatever is pushed, so a sum cannot be read back. A new key
    that starts at zero can: it moves only if somebody pushed something that is not zero.
    """
    if store is None or not is_distributed(store.type):
        return vote
    key = _FIRST_BALLOT + ballot
    result = mx.nd.zeros(1)
    store.init(key, result)
    # Large, so that it is above any threshold of a store that compresses.
    store.push(key, mx.nd.full(1, vote * _ABOVE_THRESHOLD))
    # An asynchronous store would answer before the others have voted.
    mx.nd.waitall()
    barrier(store)
    store.pull(key, out=result)
    return bool(result.asscalar() != 0)


def broadcast_from_first(store: Any, *, word: int, value: float) -> float:
    """The value that the first worker gives; all of them ask with a `word` not asked with before.

    A key begins with what that worker gives it, whatever the servers make of what is pushed.
    """
    key, result = _FIRST_BROADCAST + word, mx.nd.zeros(1)
    store.init(key, mx.nd.full(1, value))
    store.pull(key, out=result)
    return float(result.asscalar())


def barrier(store: Any) -> None:
    """Returns when every worker of the job has come here."""
    store._barrier()  # there is no public one
