"""A worker's side of the parameter store."""

from typing import Any

from bench.errors import SpecError
from bench.kvstores import is_distributed
from bench.mxnet_import import mx
from bench.options import Options

# Above every parameter's key: the ballots of `any_votes`, one for each epoch, and for each window
# from WINDOW_BALLOTS on.
_FIRST_BALLOT = 1_000_000_000
WINDOW_BALLOTS = 500_000_000


def open_kvstore(options: Options) -> Any | None:
    """The store of this job, or None where one worker on one device has nothing to share.

    Returns after every worker, server and the scheduler have met. Raises SpecError where the job
    cannot be the one that was asked for.
    """
    if not is_distributed(options.kv_store):
        return mx.kv.create(options.kv_store) if options.devices > 1 else None
    store = mx.kv.create(options.kv_store)
    if options.expect_workers not in {0, store.num_workers}:
        raise SpecError(
            f"expected {options.expect_workers} workers in this job, the store has "
            f"{store.num_workers}"
        )
    return store


def any_votes(store: Any | None, *, ballot: int, vote: bool) -> bool:
    """Whether any worker of the job votes yes; all of them ask at the same step.

    The servers apply the optimiser to whatever is pushed, so a sum cannot be read back. A new key
    that starts at zero can: it moves only if somebody pushed something that is not zero.
    """
    if store is None or not is_distributed(store.type):
        return vote
    key = _FIRST_BALLOT + ballot
    result = mx.nd.zeros(1)
    store.init(key, result)
    store.push(key, mx.nd.full(1, float(vote)))
    # An asynchronous store would answer before the others have voted.
    mx.nd.waitall()
    meet(store)
    store.pull(key, out=result)
    return bool(result.asscalar() != 0)


def meet(store: Any) -> None:
    """Returns when every worker of the job has come here."""
    store._barrier()  # there is no public one
