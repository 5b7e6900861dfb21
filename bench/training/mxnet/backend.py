"""MXNet as the shared training loop uses it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from bench.data import input_format
from bench.data.loader import Buffer
from bench.engines.mxnet import MXNET
from bench.kvstores import find_kvstore
from bench.training import loop
from bench.training.mxnet import checkpoint, inputs, kvstore, profiling
from bench.training.mxnet.worker import (
    Worker,
    build_worker,
    gradient_bytes,
    gradients,
    keeps_state,
    trainable_parameters,
    training_state,
    update,
    weight_digest,
)
from bench.training.mxnet_shim import mx, rounds_to_tf32
from bench.training.options import Options
from im2rec_tools.terminal import echo


def train(options: Options, facts: Mapping[str, Any] | None = None) -> loop.TrainingSummary:
    """Train with MXNet; `facts` are additional ones for this worker's record."""
    return loop.train(options, lambda options: MxnetBackend(build_worker(options)), facts)


class MxnetBackend:
    """A worker of MXNet; see `bench.training.backend.Backend`."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.options, self.part = worker.options, worker.part
        self.rank, self.num_workers = worker.rank, worker.num_workers
        self.comm = find_kvstore(worker.options.kv_store)
        self.batches = worker.batches
        self.reader, self.delays = worker.reader, worker.delays
        self.buffer: Callable[[int], Buffer] = inputs.buffers(worker.options)

    def load(self, buffer: Buffer) -> inputs.Batch:
        """Return a buffer's arrays as a batch on the devices."""
        data = buffer.data.astype(self.options.array_dtype, copy=False)
        return inputs.split(data, buffer.label, self.worker.contexts)

    def synthetic(self) -> Iterator[inputs.Batch]:
        """Yield batches of random images, without end."""
        contexts = self.worker.contexts
        return inputs.synthetic_batches(self.options, contexts, self.part.first, self.batches)

    def step(self, batch: inputs.Batch, number: int) -> list[Any]:
        """Run update `number` and return its losses, before they are computed."""
        losses = gradients(self.worker, batch)
        profiling.print_statistics(self.worker, batch, number)
        update(self.worker)
        return losses

    def compute(self, batch: inputs.Batch) -> None:
        """Run forward and backward without exchange and update."""
        gradients(self.worker, batch)

    def wait(self) -> None:
        """Wait until all work is done."""
        mx.nd.waitall()

    def loss(self, losses: Sequence[Any]) -> float:
        """Return the mean of a step's losses."""
        return sum(float(part.mean().asscalar()) for part in losses) / len(losses)

    def hits(self) -> tuple[int, int] | None:
        """Return right guesses and images since the last call; None if not counted."""
        return self.worker.accuracy.read() if self.worker.accuracy else None

    def scores(self, buffer: Buffer) -> Any:
        """Return the scores of a buffer's images as numpy, (N, classes)."""
        images = buffer.data.as_in_context(self.worker.contexts[0])
        return self.worker.net(images.astype(self.options.array_dtype)).astype("float32").asnumpy()

    def seed(self, seed: int) -> None:
        """Seed MXNet's random numbers, and those of compression."""
        mx.random.seed(seed)
        if self.worker.exchange:
            self.worker.exchange.seed(seed)

    def rate(self, epochs: float) -> float:
        """Return the learning rate after these epochs of this process."""
        optimizer = self.worker.trainer.optimizer
        schedule = optimizer.lr_scheduler
        if not schedule:
            return self.options.lr
        return float(schedule(optimizer.begin_num_update + epochs * schedule.updates))

    def digest(self) -> str:
        """Return a hash of the weights; FloatingPointError if one is not finite."""
        return weight_digest(self.worker)

    def barrier(self) -> None:
        """Wait for all workers."""
        kvstore.barrier(self.worker.kvstore)

    def broadcast(self, number: int, value: float) -> float:
        """Return the first worker's value."""
        return kvstore.broadcast_from_first(self.worker.kvstore, word=number, value=value)

    def any_worker(self, number: int, vote: bool) -> bool:
        """Return whether any worker votes yes."""
        return kvstore.any_worker(self.worker.kvstore, ballot=number, vote=vote)

    def sums(self, number: int, values: Sequence[int]) -> tuple[int, ...]:
        """Return the sum over all workers of each value."""
        return kvstore.sums_over_workers(
            self.worker.kvstore, values, word=number, rank=self.rank, workers=self.num_workers
        )

    def facts(self) -> dict[str, Any]:
        """Return the number of arrays, MXNet's version, and whether it rounds to TF32."""
        tf32 = bool(self.options.gpus) and rounds_to_tf32(self.worker.contexts[0])
        arrays = len(trainable_parameters(self.worker))
        return {"arrays": arrays, "mxnet": mx.__version__, "tf32": tf32}

    def wire_bytes(self) -> int:
        """Return the bytes that it sends per step; 0 if it sends none."""
        if self.worker.exchange:
            return int(self.worker.exchange.sent_bytes())
        if not self.comm.spans:
            return 0
        return MXNET.wire_bytes(self.comm, self.options.gc_type, gradient_bytes(self.worker))

    def device_memory(self) -> dict[str, int]:
        """Return the peak memory of its fullest GPU, by the name of its fact."""
        return device_memory(self.options.gpus, mx.context.gpu_memory_info)

    def check_saving(self) -> None:
        """Raise SpecError if the prefix cannot be written or has another network's files."""
        options, prefix = self.options, self.options.model_prefix
        input_format.make_folder(prefix)
        checkpoint.check_network(
            self.worker.net, prefix, options.image_shape, loaded=bool(options.load_epoch)
        )
        input_format.check_prefix(prefix, input_format.described(options))
        older = input_format.newest_epoch(prefix)
        if older > options.load_epoch:
            echo(_replaced(options, older), err=True)

    def save(self, epoch: int, batches: int) -> str:
        """Save epoch `epoch` after so many steps; return the file, '' on other ranks."""
        options, prefix = self.options, self.options.model_prefix
        state = training_state(self.worker, batches) if keeps_state(options) else None
        if self.rank:
            return ""
        input_format.write(prefix, input_format.described(options))
        checkpoint.save(self.worker.net, prefix, epoch, state)
        return f"{prefix}-{epoch:04d}.params"

    def profile(self) -> AbstractContextManager[None]:
        """Profile the block if the options request it."""
        return profiling.profile(self.worker)

    def start_trace(self) -> None:
        """Start profiling with the next step."""
        profiling.start()

    def stop_trace(self) -> None:
        """Stop profiling after the work of the last step."""
        profiling.stop()


def _replaced(options: Options, older: int) -> str:
    """Return a note on older checkpoints of the prefix, up to epoch `older`."""
    first, last = options.load_epoch + 1, min(older, options.num_epochs)
    which = f"epoch {first}" if first == last else f"epochs {first} to {last}"
    replaces = f", and this one replaces {which}" if options.has_epochs else ""
    again = options.pretrained and options.pretrained != options.model_prefix
    continues = "; without --pretrained-model, --load-epoch continues them" if again else ""
    return (
        f"note: {options.model_prefix} has checkpoints of an earlier training up to epoch {older}"
        f"{replaces}. Another --model-prefix keeps them{continues}. bench.score and bench.predict "
        "use the newest epoch unless --load-epoch names another"
    )


def device_memory(
    gpus: Sequence[int], memory_of: Callable[[int], tuple[int, int]]
) -> dict[str, int]:
    """Return the peak memory of the fullest GPU, by the name of its fact.

    MXNet keeps the memory of its arrays until the process ends, so that the memory in use at the
    end is the peak. It includes that of other programs. `memory_of` returns the free and total
    bytes of a GPU.
    """
    used = [total - free for free, total in map(memory_of, gpus)]
    return {"peak_device_memory_bytes": max(used)} if used else {}
