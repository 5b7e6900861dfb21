"""Backend: what the shared training loop asks of a framework. Loads no framework."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bench.data.loader import Buffer, Reader
from bench.engines.engine import Comm
from bench.statistics.stopwatch import WindowDelays
from bench.training.batch import BatchSlice
from bench.training.options import Options


class Backend(Protocol):
    """A worker with its network, after the rendezvous with the job's other workers.

    Batches, losses and images are the framework's own; the loop only passes them on. Steps may
    return before their work is done.

    options   batch_size is this rank's
    part      its part of the global batch
    comm      how the workers exchange gradients
    batches   steps before this process, of an interrupted training that it continues
    """

    options: Options
    part: BatchSlice
    rank: int
    num_workers: int
    comm: Comm
    batches: int
    reader: Reader
    delays: WindowDelays

    # Input.
    def buffer(self, size: int) -> Buffer:
        """Make the arrays of a batch that threads decode into."""

    def load(self, buffer: Buffer) -> Any:
        """Return a buffer's arrays as a batch on the devices."""

    def synthetic(self) -> Iterator[Any]:
        """Yield batches of random images, without end."""

    # Computation.
    def step(self, batch: Any, number: int) -> Any:
        """Run update `number`, counted from 1, and return its losses."""

    def compute(self, batch: Any) -> None:
        """Run forward and backward without exchange and update."""

    def wait(self) -> None:
        """Wait until all work is done."""

    def loss(self, losses: Any) -> float:
        """Return the mean of a step's losses."""

    def hits(self) -> tuple[int, int] | None:
        """Return right guesses and images since the last call; None if not counted."""

    def scores(self, buffer: Buffer) -> Any:
        """Return the scores of a buffer's images as numpy, (N, classes)."""

    def seed(self, seed: int) -> None:
        """Seed later random numbers, such as those of dropout."""

    def rate(self, epochs: float) -> float:
        """Return the learning rate after these epochs of this process."""

    def digest(self) -> str:
        """Return a hash of the weights; FloatingPointError if one is not finite."""

    # Other workers. All must call these at the same step, with a new number.
    def barrier(self) -> None:
        """Wait for all workers."""

    def broadcast(self, number: int, value: float) -> float:
        """Return the first worker's value."""

    def any_worker(self, number: int, vote: bool) -> bool:
        """Return whether any worker votes yes."""

    def sums(self, number: int, values: Sequence[int]) -> tuple[int, ...]:
        """Return the sum over all workers of each value."""

    # Results.
    def facts(self) -> dict[str, Any]:
        """Return the facts of `ready` that depend on the framework, such as its version."""

    def wire_bytes(self) -> int:
        """Return the bytes that it sends per step; 0 if it sends none."""

    def device_memory(self) -> dict[str, int]:
        """Return the peak memory of its fullest GPU, by the name of its fact."""

    def check_saving(self) -> None:
        """Raise SpecError if checkpoints cannot be saved."""

    def save(self, epoch: int, batches: int) -> str:
        """Save epoch `epoch` after so many steps; return the file, '' on other ranks."""

    # Inspection.
    def profile(self) -> AbstractContextManager[None]:
        """Profile the block if the options request it."""

    def start_trace(self) -> None:
        """Start profiling with the next step."""

    def stop_trace(self) -> None:
        """Stop profiling after the work of the last step."""
