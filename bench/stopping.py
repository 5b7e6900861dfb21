"""When a worker has measured enough; in a synchronous job the first worker decides for all."""

from collections.abc import Sequence
from typing import Any

from bench.kvstores import is_async
from bench.series import LEAST_WINDOWS, Budget, ending, looks_at
from bench.store_client import first_says
from bench.worker import Worker


def enough(worker: Worker, windows: Sequence[dict[str, Any]]) -> str:
    """Why no window is needed any more: 'windows', 'precision' or 'seconds'; '' where one is.

    The workers of a synchronous job wait for each other in every window, so that their windows say
    the same; those of the first worker decide, and all stop after the same one. Asynchronous
    workers run on their own clocks and stop by them, whatever their precision.
    """
    options = worker.options
    if not options.windows:
        return ""
    alone = worker.num_workers == 1 or is_async(options.kv_store)
    budget = Budget(
        precision=0.0 if is_async(options.kv_store) else options.precision,
        windows=options.windows,
        seconds=options.budget_seconds,
    )
    found = ending([one["seconds"] for one in windows], budget, options.warmup_windows)
    measured = len(windows) - options.warmup_windows
    if alone or measured >= options.windows:
        return found
    if measured < 1 or (measured >= LEAST_WINDOWS and not looks_at(measured)):
        return ""
    reasons = ("", "precision", "seconds")
    said = first_says(worker.kvstore, word=measured, value=reasons.index(found))
    return reasons[round(said)]
