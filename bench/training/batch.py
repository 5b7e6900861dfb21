"""A worker's part of the global batch, and the steps of an epoch."""

import dataclasses
from dataclasses import dataclass

from bench.data.partition import worker_partition
from bench.errors import SpecError, error_line
from bench.training.options import Options


@dataclass(frozen=True, kw_only=True)
class BatchSlice:
    """A worker's part of a global batch.

    first   index of its first image
    count   its number of images
    whole   images of the global batch
    """

    first: int
    count: int
    whole: int


def batch_slice(whole: int, rank: int, workers: int) -> BatchSlice:
    """Return one rank's part.

    If the batch does not divide, the first ranks get one more.
    """
    each, more = divmod(whole, workers)
    return BatchSlice(first=rank * each + min(rank, more), count=each + (rank < more), whole=whole)


def with_batch_slice(options: Options, rank: int, workers: int) -> tuple[Options, BatchSlice]:
    """Return the options with this rank's batch, and its part of the global batch.

    Raises SpecError if a worker would have fewer images than devices.
    """
    mine = batch_slice(options.global_batch or options.batch_size * workers, rank, workers)
    if options.global_batch and options.global_batch // workers < options.devices:
        raise SpecError(
            error_line(
                "--global-batch",
                expected=(
                    f"at least one image per device ({workers * options.devices} devices in "
                    f"{workers} worker{'s' * (workers > 1)})"
                ),
                got=options.global_batch,
            )
        )
    return dataclasses.replace(options, batch_size=mine.count), mine


def epoch_images(options: Options, workers: int) -> int:
    """Return the images per epoch of the whole job."""
    return options.num_examples or worker_partition(options.data_train, 0, workers).epoch


def epoch_steps(options: Options, whole: int, workers: int) -> int:
    """Return the steps per epoch, which are the same for all workers.

    `whole`: images of the global batch. Upstream's rule: ceil(floor(images / workers) / a worker's
    batch). An epoch's last batch may hold the first images of the next epoch.
    """
    share = epoch_images(options, workers) // workers
    return max(1, -(-share * workers // whole))
