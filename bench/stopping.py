"""When a worker has measured enough; the workers of a synchronous job decide as one."""

import time
from collections.abc import Sequence
from typing import Any

from bench.kvstores import is_async
from bench.series import good_enough, looks_at
from bench.store_client import WINDOW_BALLOTS, any_votes
from bench.worker import Worker

# Before there are so many measured windows, only time can be up.
_FEWEST = 6


def enough(worker: Worker, windows: Sequence[dict[str, Any]], until: float) -> str:
    """Why no window is needed any more: 'windows', 'precision' or 'seconds'; '' where one is.

    `until` is the time.monotonic() at which the budget is spent. A synchronous job goes on as long
    as any worker wants to, so that all stop after the same window; asynchronous workers run on
    their own clocks and stop by them, whatever they have measured.
    """
    options = worker.options
    measured = len(windows) - options.warmup_windows
    if options.windows and measured >= options.windows:
        return "windows"
    if not options.windows or measured < 1:
        return ""
    late = time.monotonic() >= until
    if is_async(options.kv_store):
        return "seconds" if late else ""
    if measured >= _FEWEST and not looks_at(measured):
        return ""
    seconds = [window["seconds"] for window in windows]
    good = options.precision > 0 and good_enough(seconds, options.precision, options.warmup_windows)
    if any_votes(worker.kvstore, ballot=WINDOW_BALLOTS + measured, vote=not (good or late)):
        return ""
    return "precision" if good else "seconds"
