"""Sum of the workers' gradients without servers: all-reduce by PyTorch's gloo.

The gradients lie one after another in one memory, so that neither side copies them. Sums begin with
the last layers, whose gradients are ready first, while the backward pass of earlier ones still
runs. Workers at one address add up in shared memory; gloo only separates the phases. The order of
additions is that of ranks there, so that all workers have the same sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from bench.kvstores import TERNARY
from bench.training.mxnet.shared_memory import open_shared
from bench.training.mxnet.ternary import Quantizer
from bench.training.mxnet_shim import mx
from bench.training.options import Options
from bench.training.torch.rendezvous import Job

# Bytes that are exchanged together, at least.
_BUCKET = 25 << 20
# Values before each array, in memory: a multiple of 64 bytes.
_ALIGNED = 16
# Values added at a time; those of two workers stay in a core's cache.
_BLOCK = 1 << 15


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """Arrays that are exchanged together: their gradients and places in memory."""

    gradients: tuple[Any, ...]
    places: tuple[slice, ...]

    @property
    def place(self) -> slice:
        """Return the memory of all of them, with the gaps between them."""
        return slice(self.places[0].start, self.places[-1].stop)


class AllReduce:
    """The workers of a job, which add up their gradients by themselves."""

    type = "allreduce"

    def __init__(self, job: Job, options: Options) -> None:
        self.job, self.rank, self.num_workers = job, job.rank, job.num_workers
        self._quantizer: Quantizer | None = None
        if options.gc_type == TERNARY:
            self._quantizer = Quantizer(options.seed * 1000 + job.rank + 1)
        self._buckets: list[Bucket] = []
        self._memory: Any = None
        self._all: list[Any] = []

    def seed(self, seed: int) -> None:
        """Seed the random numbers of compression."""
        if self._quantizer:
            self._quantizer = Quantizer(seed)

    def share_weights(self, parameters: Sequence[Any]) -> None:
        """Set these parameters to those of the first worker, as kvstores do."""
        for parameter in parameters if self.num_workers > 1 else ():
            values = torch.from_numpy(parameter.data().asnumpy().copy())
            dist.broadcast(values, 0)
            if self.rank:
                parameter.set_data(mx.nd.from_numpy(values.numpy(), zero_copy=False))

    def take(self, parameters: Sequence[Any]) -> None:
        """Move the gradients of these parameters into the memory that is exchanged."""
        shapes = [one.shape for one in parameters]
        sizes = [int(np.prod(shape)) for shape in shapes]
        # The last arrays come first.
        begins = np.cumsum([0, *(-(-size // _ALIGNED) * _ALIGNED for size in sizes[::-1])])
        shared = None if self._quantizer else open_shared(self.job, 4 * int(begins[-1]))
        self._memory = torch.zeros(int(begins[-1])) if shared is None else shared[self.rank]
        self._all = shared or []
        pairs = zip(begins.tolist(), sizes[::-1], strict=False)  # without the end of the last
        places = [slice(at, at + size) for at, size in pairs]
        gradients: list[Any] = []
        for parameter, place in zip(reversed(parameters), places, strict=True):
            values = self._memory[place].numpy().reshape(parameter.shape)
            gradients.append(mx.nd.from_numpy(values, zero_copy=True))
            # As Gluon's Parameter does with gradients of its own.
            parameter._grad = gradients[-1:]
            data = [parameter.data()]
            mx.autograd.mark_variables(data, parameter._grad, parameter.grad_req)
        self._buckets = list(_buckets(gradients, places))

    def sent_bytes(self) -> int:
        """Return the bytes that this worker sends per step; 0 through shared memory."""
        others = self.num_workers - 1
        if self._all:
            return 0
        if self._quantizer:
            packed = sum(self._quantizer.packed_bytes(one.places) for one in self._buckets)
            return others * packed
        return 2 * others * 4 * int(self._memory.numel()) // self.num_workers

    def add_up(self) -> None:
        """Replace all gradients by the sums over the workers; returns when they are there."""
        if self.num_workers == 1 and not self._quantizer:
            return
        works = []
        for bucket in self._buckets:
            for gradient in bucket.gradients:
                gradient.wait_to_read()
            if self._quantizer:
                self._quantizer.add_up(self._memory, bucket.places)
            elif self._all:
                self.job.barrier()
                self._add_share(bucket.place)
            else:
                works.append(dist.all_reduce(self._memory[bucket.place], async_op=True))
        for work in works:
            work.wait()
        if self._all:
            self.job.barrier()

    def _add_share(self, place: slice) -> None:
        """Add up this worker's share of a bucket, in the memory of all workers."""
        each = -(-(place.stop - place.start) // self.num_workers)
        first = place.start + self.rank * each
        last = min(first + each, place.stop)
        for begin in range(first, last, _BLOCK):
            block = slice(begin, min(begin + _BLOCK, last))
            of_first, *others = (one[block] for one in self._all)
            for one in others:
                of_first.add_(one)
            for one in others:
                one.copy_(of_first)


def _buckets(gradients: Sequence[Any], places: Sequence[slice]) -> Any:
    """Yield buckets of neighbors in memory."""
    begin = 0
    for end, place in enumerate(places, 1):
        if 4 * (place.stop - places[begin].start) >= _BUCKET or end == len(places):
            chosen = slice(begin, end)
            yield Bucket(gradients=tuple(gradients[chosen]), places=tuple(places[chosen]))
            begin = end
