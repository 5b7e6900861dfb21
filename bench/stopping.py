"""When a worker has measured enough; in a synchronous job the first worker decides for all."""

from collections.abc import Sequence
from typing import Any

from bench.kvstores import is_async, is_distributed
from bench.options import Options
from bench.series import LEAST_WINDOWS, Budget, alike, ending, looks_at
from bench.store_client import first_says

_REASONS = ("", "precision", "seconds")


def budget_of(options: Options) -> Budget:
    """How well and at most how long a worker measures; asynchronous ones all they are asked for."""
    return Budget(
        precision=0.0 if is_async(options.kv_store) else options.precision,
        windows=options.windows,
        seconds=options.budget_seconds,
    )


def decided(
    store: Any | None, windows: Sequence[dict[str, Any]], budget: Budget, warmup: int
) -> str:
    """Why no window is needed any more: 'windows', 'precision' or 'seconds'; '' where one is.

    The workers of a synchronous job wait for each other in every window, so that their windows say
    the same; those of the first worker decide, and all stop after the same one. Without a store,
    or with one inside the process, a worker decides for itself.
    """
    found = ending(alike(windows), budget, warmup)
    measured = len(windows) - warmup
    alone = store is None or not is_distributed(store.type)
    only_windows = not (budget.precision or budget.seconds)
    if alone or only_windows or measured >= budget.windows:
        return found
    if measured < 1 or (measured >= LEAST_WINDOWS and not looks_at(measured)):
        return ""
    return _REASONS[round(first_says(store, word=measured, value=_REASONS.index(found)))]
