"""Which images of the global batch a worker trains, and how many steps an epoch has."""

import dataclasses
from dataclasses import dataclass

from bench.errors import SpecError
from bench.options import Options
from bench.shares import portion


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A worker's part of a global batch of `whole` images: `count` of them, from number `first`."""

    first: int
    count: int
    whole: int


def slice_of(whole: int, rank: int, workers: int) -> Slice:
    """The part of one rank; where it does not divide, the first ranks have one image more."""
    each, more = divmod(whole, workers)
    return Slice(first=rank * each + min(rank, more), count=each + (rank < more), whole=whole)


def own(options: Options, rank: int, workers: int) -> tuple[Options, Slice]:
    """The options with this rank's batch, and its part of the global batch.

    Raises SpecError where a worker would have fewer images than devices.
    """
    mine = slice_of(options.global_batch or options.batch_size * workers, rank, workers)
    if options.global_batch and options.global_batch // workers < options.devices:
        raise SpecError(
            f"--global-batch {options.global_batch}: expected at least an image for each of the "
            f"{workers * options.devices} devices of {workers} worker(s)"
        )
    return dataclasses.replace(options, batch_size=mine.count), mine


def epoch_images(options: Options, workers: int) -> int:
    """Images of an epoch of the whole job."""
    return options.num_examples or portion(options.data_train, 0, workers).epoch


def epoch_steps(options: Options, whole: int, workers: int) -> int:
    """Steps of an epoch at a global batch of `whole` images; every worker gets the same.

    As upstream counts them: ceil(floor(images / workers) / a worker's batch). An epoch's last batch
    may hold the first images of the next epoch.
    """
    share = epoch_images(options, workers) // workers
    return max(1, -(-share * workers // whole))
