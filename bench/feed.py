"""What a worker trains on: batches without end, and how many steps each window of an epoch has."""

from collections.abc import Iterator

from bench import batches, inputs
from bench.shares import portion
from bench.worker import Worker


def window_steps(worker: Worker) -> tuple[int, ...]:
    """Steps of every window of one epoch; every worker of a job gets the same."""
    options = worker.options
    if options.benchmark:
        return (options.steps_per_window,) * (options.warmup_windows + options.windows)
    steps = batches.epoch_steps(options, worker.part.whole, worker.num_workers)
    whole, rest = divmod(steps, options.steps_per_window)
    return (options.steps_per_window,) * whole + ((rest,) if rest else ())


def batches_of(worker: Worker) -> Iterator[inputs.Batch]:
    """Synthetic or real batches, on the worker's devices, for ever."""
    options = worker.options
    if options.benchmark:
        yield from inputs.synthetic(options, worker.contexts, worker.part.first)
    mine = portion(options.data_train, worker.rank, worker.num_workers)
    for data, label in inputs.forever(options, mine, inputs.shuffled(options, mine), worker.rank):
        yield inputs.split(data.astype(options.array_dtype, copy=False), label, worker.contexts)
