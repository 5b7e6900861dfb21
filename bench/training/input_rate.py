"""Mode test-io: input-pipeline benchmark without training (--test-io 1).

Loads no framework: images are decoded into memory as NumPy has it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bench.data import loader, page_cache
from bench.data.partition import WorkerPartition, whole_data
from bench.engines.catalog import ENGINES
from bench.environment import installed_version
from bench.statistics.budget import end_reason
from bench.statistics.stopping_rule import per_image_seconds
from bench.statistics.stopwatch import Stopwatch
from bench.training.loop import TrainingSummary, budget_of, measure
from bench.training.options import Options
from bench.training.progress import ProgressLines

# Batches that were ready before the start must not count.
_SETTLE_SECONDS = 1.0
_WINDOW_SECONDS = 0.5


@dataclass(kw_only=True)
class _Memory:
    """A `loader.Buffer` that no device reads."""

    data: Any
    label: Any
    images: Any
    labels: Any

    def wait(self) -> None:
        """Return at once."""


def _memory(options: Options, size: int) -> _Memory:
    images = np.empty((size, *options.image_shape), np.float32)
    labels = np.empty(size, np.float32)
    return _Memory(data=images, label=labels, images=images, labels=labels)


def time_input(options: Options) -> TrainingSummary:
    """Time reading, epoch after epoch; a window is the batches of half a second.

    Several readers divide the images, as the workers of a host do.
    """
    index, readers = map(int, os.environ.get("MXSCALE_LOCAL", "0/1").split("/"))
    whole = whole_data(options.data_train)
    portion = replace(whole, index=index, count=readers, fewest=whole.total // readers)
    data, paths = options.data_train, portion.paths
    found = page_cache.drop_and_check(data, paths) if options.cold else page_cache.residency(paths)
    orders = _orders(options, portion)
    batches = loader.training_batches(options, portion, orders, partial(_memory, options))
    engine = ENGINES[options.engine]
    budget = budget_of(options, engine.comms[options.kv_store])._replace(
        windows=options.windows or 10
    )
    if readers > 1:  # one that ended early would leave the others more time
        budget = budget._replace(precision=0.0)
    warmup = options.warmup_windows
    facts = {
        "num_workers": readers,
        "worker_batch": options.batch_size,
        "devices": options.devices,
        engine.package: installed_version(engine.package),
    }

    def window(index: int) -> dict[str, Any]:
        least = _SETTLE_SECONDS if index < warmup else _WINDOW_SECONDS
        clock, steps = Stopwatch(), 0
        while clock.seconds < least:
            next(batches)
            steps += 1
        return clock.window(index, steps * options.batch_size, steps)

    return measure(
        facts | page_cache.describe(found),
        window,
        lambda windows: end_reason(per_image_seconds(windows), budget, warmup),
        ProgressLines(
            warmup + budget.windows, may_end_early=bool(budget.precision or budget.seconds)
        ),
        index,
    )


def _orders(options: Options, portion: WorkerPartition) -> Iterator[Any]:
    """Yield all images in order, without end.

    With --cold, drop the cache after each epoch.
    """
    while True:
        yield np.arange(portion.images)
        if options.cold:
            page_cache.drop(portion.paths)
