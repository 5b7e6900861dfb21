"""Times the input pipeline alone: reads, decodes and crops, and trains nothing (--test-io 1)."""

import os
import time
from typing import Any

from bench import events, inputs
from bench.mxnet_import import mx
from bench.options import Options
from bench.shares import all_of
from bench.training import Summary

# MXNet decodes ahead of the reader, a whole chunk of the file at once where there is no index:
# batches that were ready before the clock started must not count.
_SETTLE_SECONDS = 1.0
_WINDOW_SECONDS = 0.5


def read(options: Options) -> Summary:
    """Reads epoch after epoch; each window is as many batches as half a second takes."""
    iterator = inputs.record_iterator(
        options,
        all_of(options.data_train),
        options.batch_size,
        shuffle=False,
        changes=inputs.training_changes(options, 0),
    )
    batches = inputs.forever(iterator)
    facts = {"num_workers": 1, "worker_batch": options.batch_size, "devices": options.devices}
    events.say(events.Event(kind="ready", rank=0, values=facts | _threads(options)))
    wanted = options.warmup_windows + (options.windows or 10)
    windows: list[dict[str, Any]] = []
    while len(windows) < wanted:
        settling = len(windows) < options.warmup_windows
        least = _SETTLE_SECONDS if settling else _WINDOW_SECONDS
        windows.append(_window(batches, options.batch_size, least, len(windows)))
        events.say(events.Event(kind="window", rank=0, values=windows[-1]))
    return Summary(rank=0, num_workers=1, windows=tuple(windows))


def _window(batches: Any, batch_size: int, least_seconds: float, index: int) -> dict[str, Any]:
    cpu, start, steps, seconds = time.process_time(), time.perf_counter(), 0, 0.0
    while seconds < least_seconds:
        data, _ = next(batches)
        data.wait_to_read()
        steps, seconds = steps + 1, time.perf_counter() - start
    return {
        "index": index,
        "seconds": seconds,
        "end": time.time(),
        "cpu_seconds": time.process_time() - cpu,
        "images": steps * batch_size,
        "steps": steps,
    }


def _threads(options: Options) -> dict[str, Any]:
    """How many threads really decode: MXNet takes at most half of the processors."""
    most = max(1, (os.cpu_count() or 1) // 2)
    return {"decode_threads": min(options.data_nthreads, most), "mxnet": mx.__version__}
