"""Backend of engine `torch`: one process of DistributedDataParallel."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from bench.data import input_format, loader
from bench.engines.ddp import COMMS
from bench.engines.torch import TORCH
from bench.errors import SpecError, error_line
from bench.statistics.stopwatch import WindowDelays
from bench.training import loop
from bench.training.batch import epoch_steps, with_batch_slice
from bench.training.optimizer import Schedule, described, is_constant
from bench.training.options import Options
from bench.training.torch import batches, checkpoint
from bench.training.torch.rendezvous import Job, join
from bench.training.torch.worker import Step, build_step, device_of
from im2rec_tools.terminal import echo


class TorchBackend:
    """A worker of the job; `bench.training.backend.Backend` describes its members."""

    def __init__(self, options: Options, job: Job) -> None:
        self.options, self.part = with_batch_slice(options, job.rank, job.num_workers)
        self.rank, self.num_workers = job.rank, job.num_workers
        self.comm = COMMS[options.kv_store]
        self._job = job
        self._step: Step = build_step(self.options, job, self.part.whole)
        self._hits: list[Any] = []
        self.batches = self._restore() if options.load_epoch else 0
        self.reader = loader.Reader(rank=self.rank, before=self.batches)
        self.delays = WindowDelays()
        self._begun = self._step.updates
        self._schedule = self._step.schedule = self._learning_rates()

    def _learning_rates(self) -> Schedule | None:
        options = self.options
        if not options.has_epochs or is_constant(options.lr_epochs):
            return None
        updates = epoch_steps(options, self.part.whole, self.num_workers)
        return Schedule(
            base_lr=options.lr,
            epochs=options.lr_epochs,
            updates=updates,
            first=options.load_epoch - self._begun / updates,
            last=options.num_epochs,
        )

    def _restore(self) -> int:
        """Continue from a checkpoint; return the steps before this training."""
        options = self.options
        values = checkpoint.restore(self._step.net, options.model_prefix, options.load_epoch)
        if values["optimizer"] != options.optimizer:
            where = checkpoint.path_of(options.model_prefix, options.load_epoch)
            expected = f"the state of --optimizer {options.optimizer}"
            fix = f"Give --optimizer {values['optimizer']}"
            raise SpecError(error_line(where, expected=expected, got=values["optimizer"], fix=fix))
        groups = self._step.optimizer.state_dict()["param_groups"]
        self._step.optimizer.load_state_dict(
            {"state": values["state"], "param_groups": groups}  # with the rates of this training
        )
        if saved := values.get("scaler"):
            self._step.scaler.load_state_dict(saved)
        self._step.updates = int(values["batches"])
        if self.rank == 0:
            echo(
                f"continues after epoch {options.load_epoch}, with the optimizer's state", err=True
            )
        if (values["whole"], values["workers"]) == (self.part.whole, self.num_workers):
            return int(values["batches"])
        if not options.has_epochs:
            return 0
        return options.load_epoch * epoch_steps(options, self.part.whole, self.num_workers)

    # Input.
    def buffer(self, size: int) -> loader.Buffer:
        """Return memory for decoded images."""
        return batches.buffer(self.options, self._step.device, size)

    def load(self, buffer: loader.Buffer) -> Any:
        """Return a buffer's images and labels on the device."""
        return batches.load(self.options, self._step.device, buffer)

    def synthetic(self) -> Iterator[Any]:
        """Yield the same images with new labels."""
        images, labels = loader.synthetic_arrays(self.options, self.part.first, self.batches)
        return batches.cycle(self.options, self._step.device, images, labels)

    # Computation.
    def step(self, batch: Any, number: int) -> Any:
        """Run an update; gradients are exchanged during the backward pass."""
        loss, hits = self._step.gradients(*batch)
        if not self.options.benchmark:
            self._hits.append(hits)
        self._step.update()
        return loss

    def compute(self, batch: Any) -> None:
        """Run forward and backward of the network alone."""
        self._step.compute(*batch)

    def wait(self) -> None:
        """Wait for the device."""
        self._step.wait()

    def loss(self, losses: Any) -> float:
        """Return the mean loss of a step on this rank's images."""
        return float(losses)

    def hits(self) -> tuple[int, int] | None:
        """Return right guesses and images since the last call; None with synthetic images."""
        if self.options.benchmark:
            return None
        found = sum(int(one.sum()) for one in self._hits), sum(map(len, self._hits))
        self._hits = []
        return found

    def scores(self, buffer: loader.Buffer) -> Any:
        """Return the scores of a buffer's images as numpy."""
        return self._step.scores(batches.place(self.options, self._step.device, buffer.data))

    def seed(self, seed: int) -> None:
        """Seed dropout."""
        torch.manual_seed(seed)

    def rate(self, epochs: float) -> float:
        """Return the learning rate after these epochs of this process."""
        if not self._schedule:
            return self.options.lr
        return self._schedule(round(self._begun + epochs * self._schedule.updates))

    def digest(self) -> str:
        """Return a hash of the weights."""
        return self._step.digest()

    # Other workers.
    def barrier(self) -> None:
        """Wait for all workers."""
        self._job.barrier()

    def broadcast(self, number: int, value: float) -> float:
        """Return the first worker's value."""
        return self._job.broadcast(value)

    def any_worker(self, number: int, vote: bool) -> bool:
        """Return whether any worker votes yes."""
        return self._job.any(vote)

    def sums(self, number: int, values: Sequence[int]) -> tuple[int, ...]:
        """Return the sum over all workers of each value."""
        return self._job.sums(values)

    # Results.
    def facts(self) -> dict[str, Any]:
        """Return versions, threads, arrays, and whether convolutions round to TF32."""
        gpu = self._step.device.type == "cuda"
        return {
            "arrays": sum(1 for _ in self._step.net.parameters()),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "tf32": gpu and torch.backends.cudnn.allow_tf32,
        }

    def wire_bytes(self) -> int:
        """Return the bytes that it sends per step, as in a ring of the workers."""
        gradients = self._step.exchanged_bytes()
        sent = TORCH.wire_bytes(self.comm, self.options.gc_type, gradients)
        return round(2 * sent * (self.num_workers - 1) / self.num_workers)

    def device_memory(self) -> dict[str, int]:
        """Return the most memory that PyTorch had reserved on the GPU."""
        if self._step.device.type != "cuda":
            return {}
        return {"peak_device_memory_bytes": torch.cuda.max_memory_reserved(self._step.device)}

    def check_saving(self) -> None:
        """Raise SpecError if checkpoints cannot be saved with this prefix."""
        prefix = self.options.model_prefix
        input_format.make_folder(prefix)
        own, found = input_format.described(self.options), input_format.read(prefix)
        if found and found.network not in {"", own.network}:
            problem = f"belongs to checkpoints of {found.network}"
            fix = "Give another --model-prefix"
            raise SpecError(error_line(input_format.path_of(prefix), problem=problem, fix=fix))
        input_format.check_prefix(prefix, own)

    def save(self, epoch: int, batches: int) -> str:
        """Save weights and the optimizer's state; the first rank has all of them."""
        options = self.options
        if self.rank:
            return ""
        input_format.write(options.model_prefix, input_format.described(options))
        values = {
            "net": self._step.net.state_dict(),
            "state": self._step.optimizer.state_dict()["state"],
            "scaler": self._step.scaler.state_dict(),  # of float16
            "optimizer": options.optimizer,
            "batches": self._begun + batches,
            "whole": self.part.whole,
            "workers": self.num_workers,
            "settings": described(
                options.optimizer,
                lr=options.lr,
                mom=options.mom,
                wd=options.wd,
                when=options.lr_epochs if options.has_epochs else None,
            ),
        }
        return str(checkpoint.save(options.model_prefix, epoch, values))

    # Inspection: the options for it are refused.
    def profile(self) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def start_trace(self) -> None:
        """Do nothing."""

    def stop_trace(self) -> None:
        """Do nothing."""


def train(options: Options, facts: Mapping[str, Any] | None = None) -> loop.TrainingSummary:
    """Train with PyTorch; `facts` are additional ones for this worker's record."""
    return loop.train(options, connect, facts)


def connect(options: Options) -> TorchBackend:
    """Join the rendezvous and build the network.

    Raises SpecError if the job is not the requested one.
    """
    gpu = device_of(options).index  # None for a CPU
    job = join(gpu) if COMMS[options.kv_store].spans else Job()
    if options.expect_workers not in {0, job.num_workers}:
        expected = f"{options.expect_workers} workers in the job"
        raise SpecError(error_line("--expect-workers", expected=expected, got=job.num_workers))
    return TorchBackend(options, job)
