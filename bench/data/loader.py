"""Batches for one worker: synthetic ones, or decoded from its share of the shards.

mxscale's own threads decode, with a process each if there are many cores: MXNet's iterator uses at
most half of the CPUs, aborts the process on a damaged file and pads an epoch with invalid images.
"""

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from bench.data.decoder import MOST_IMAGES, Decoder, Stream, opened
from bench.data.partition import WorkerPartition
from bench.data.shards import places
from bench.errors import SmallShareError, error_line
from bench.training.options import Options

# Enough to slow down memorizing, few enough to cost nothing.
_LABEL_BATCHES = 64
# With more cores, each decoding thread has a process of its own.
MOST_CORES_OF_THREADS = 2


def synthetic_arrays(options: Options, first: int, before: int = 0) -> tuple[Any, Any]:
    """Return random images and rows of labels, one row for each step in turn.

    Pixels are uniform in [-1, 1]. The labels change because a network that memorizes its batch
    drives the loss to 0, and the denormal numbers that follow slow down the arithmetic. Each image
    of the global batch depends only on `seed` and its number, so any number of workers that share
    the batch train alike.

    first   number of this worker's first image
    before  number of batches that an interrupted training used
    """
    images = np.empty((options.batch_size, *options.image_shape), dtype=np.float32)
    labels = np.empty((_LABEL_BATCHES, options.batch_size), dtype=np.float32)
    for n in range(options.batch_size):
        draw = np.random.default_rng((options.seed, first + n))
        draw.random(out=images[n], dtype=np.float32)
        labels[:, n] = draw.integers(0, options.num_classes, _LABEL_BATCHES)
    images *= 2
    images -= 1
    return images, np.roll(labels, -before, axis=0)


class Buffer(Protocol):
    """The arrays of a batch, as a framework has them, and their memory.

    Threads write the memory.

    data, label     the arrays
    images, labels  their memory as numpy: (N, C, H, W) and (N,), float32
    """

    data: Any
    label: Any
    images: Any
    labels: Any

    def wait(self) -> None:
        """Wait for the work on the previous batch in it."""


# Makes a buffer for a batch of so many images.
Buffers = Callable[[int], Buffer]


def shuffled_orders(options: Options, portion: WorkerPartition) -> Iterator[Any]:
    """Yield the portion's images in a new random order for every epoch, without end."""
    for epoch in itertools.count():
        yield np.random.default_rng((options.seed, epoch)).permutation(portion.images)


@dataclass(kw_only=True)
class Reader:
    """Reader of a stream of batches.

    before  number of batches to skip, which an interrupted training used
    waited  seconds so far that it waited for images, not for work on an older batch
    """

    rank: int = 0
    before: int = 0
    waited: float = 0.0


def training_batches(
    options: Options,
    portion: WorkerPartition,
    orders: Iterable[Any],
    buffers: Buffers,
    reader: Reader | None = None,
) -> Iterator[Buffer]:
    """Yield batches, epoch after epoch; a batch may span two epochs.

    Each rank augments its images differently, and reproducibly.

    A caller must submit all work on a batch before it requests the next batch but one: the batch's
    memory is reused when that work is done.
    """
    if portion.fewest < options.batch_size:
        raise SmallShareError(
            error_line(
                portion.data,
                expected=f"at least one batch ({options.batch_size} images) per worker",
                got=f"{portion.fewest} images",
                fix="Use a smaller batch or fewer workers",
            )
        )
    reader, size = reader or Reader(), options.batch_size
    pieces = itertools.islice(_batch_orders(orders, size), reader.before, None)
    where = _places(portion)
    numbered = ((number, where[piece]) for number, piece in enumerate(pieces, reader.before))
    stream = Stream(options=options, portion=portion, rank=reader.rank)
    return _decoded_batches(stream, numbered, buffers, reader)


def validation_batches(
    options: Options, portion: WorkerPartition, batch_size: int, buffers: Buffers
) -> Iterator[tuple[Buffer, int]]:
    """Yield the batches of one epoch in order, each with its number of valid images.

    The last batch is padded with the first images; only its valid images are scored. Memory is
    reused as in `training_batches`.
    """
    images = portion.images
    order = np.resize(np.arange(images), -(-images // batch_size) * batch_size)
    where = _places(portion)
    numbered = enumerate(where[piece] for piece in _batch_orders([order], batch_size))
    stream = Stream(options=options, portion=portion)
    batches = _decoded_batches(stream, numbered, buffers, Reader())
    for number, one in enumerate(batches):
        yield one, min(batch_size, images - number * batch_size)


def _batch_orders(orders: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield the concatenated orders in pieces of this size."""
    left = np.empty(0, np.int64)
    for order in orders:
        left = np.concatenate([left, order])
        whole = len(left) // size * size
        yield from left[:whole].reshape(-1, size)
        left = left[whole:]


@dataclass(kw_only=True)
class _Decoders:
    """What the decoding threads of a stream use: its open files, or a process each.

    closing  ends the processes
    """

    stream: Stream
    files: Sequence[int | None] | None = None
    closing: ExitStack
    own: threading.local = field(default_factory=threading.local)

    def read(self, where: Any, number: int, images: Any, labels: Any) -> None:
        """Read images of successive numbers in the stream into their memory."""
        some = where.tolist()
        if self.files is not None:
            for n, place in enumerate(some):
                labels[n] = self.stream.read(self.files, place, number + n, images[n])
            return
        if not hasattr(self.own, "decoder"):
            self.own.decoder = Decoder(self.stream)
            self.closing.callback(self.own.decoder.close)
        self.own.decoder.read(some, number, images, labels)


def _decoded_batches(
    stream: Stream, pieces: Iterable[tuple[int, Any]], buffers: Buffers, reader: Reader
) -> Iterator[Buffer]:
    """Yield numbered batches of places, decoded ahead by `data_nthreads` threads."""
    options = stream.options
    rooms: list[Buffer] = []
    started: deque[tuple[Buffer, list[Future[None]]]] = deque()
    with ExitStack() as closing:
        decoders = _Decoders(stream=stream, closing=closing.enter_context(ExitStack()))
        if len(os.sched_getaffinity(0)) <= MOST_CORES_OF_THREADS:
            decoders.files = closing.enter_context(opened(stream.portion.paths))
        pool = ThreadPoolExecutor(options.data_nthreads, thread_name_prefix="decode")
        closing.callback(pool.shutdown, wait=True, cancel_futures=True)
        for turn, (count, piece) in enumerate(pieces):
            if len(rooms) < options.prefetch_buffer + 2:
                rooms.append(buffers(len(piece)))
            room = rooms[turn % len(rooms)]
            started.append((room, _start(pool, decoders, piece, count * len(piece), room)))
            if len(started) > options.prefetch_buffer:
                yield _finished(*started.popleft(), reader)
        while started:
            yield _finished(*started.popleft(), reader)


def _places(portion: WorkerPartition) -> Any:
    """Return file, offset and length of each image of the portion."""
    return places(portion.paths)[portion.first : portion.first + portion.images]


def _start(
    pool: ThreadPoolExecutor, decoders: _Decoders, where: Any, begun: int, room: Buffer
) -> list["Future[None]"]:
    """Start reading a batch; `begun` images of the stream precede it."""

    def fill(first: int) -> None:
        some = slice(first, first + MOST_IMAGES)
        decoders.read(where[some], begun + first, room.images[some], room.labels[some])

    room.wait()
    return [pool.submit(fill, first) for first in range(0, len(where), MOST_IMAGES)]


def _finished(room: Buffer, tasks: list["Future[None]"], reader: Reader) -> Buffer:
    start = time.perf_counter()
    for task in tasks:
        task.result()
    reader.waited += time.perf_counter() - start
    return room
