"""Batches for one worker: synthetic ones, or decoded from its share of the shards.

mxscale's own threads decode: MXNet's iterator uses at most half of the CPUs, aborts the process on
a damaged file and pads an epoch with invalid images.
"""

import ctypes
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.data.augmentation_options import NONE
from bench.data.partition import WorkerPartition
from bench.data.shards import places
from bench.data.transforms import read_image
from bench.errors import SmallShareError, error_line
from bench.training.mxnet_shim import mx
from bench.training.options import Options

# Enough to slow down memorizing, few enough to cost nothing.
_LABEL_BATCHES = 64
_IMAGES_A_TASK = 4

# One slice of images and one of labels per device.
Batch = tuple[list[Any], list[Any]]
# The random generator that augments an image, by the image's number.
Draws = Callable[[int], np.random.Generator]


def split(data: Any, label: Any, contexts: list[Any]) -> Batch:
    """Split a batch into one slice per device; the last slice has the remainder."""
    load = partial(mx.gluon.utils.split_and_load, even_split=False)
    return load(data, contexts), load(label, contexts)


def synthetic_batches(
    options: Options, contexts: list[Any], first: int, before: int = 0
) -> Iterator[Batch]:
    """Yield fixed random images with new random labels in each step.

    Pixels are uniform in [-1, 1]. The labels change because a network that memorizes its batch
    drives the loss to 0, and the denormal numbers that follow slow down the arithmetic. Each image
    of the global batch depends only on `seed` and its number, so any number of workers that share
    the batch train alike. The images stay on the devices, or, with upstream's costs, are copied
    there in each step.

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
    data = mx.nd.from_numpy(images, zero_copy=False).astype(options.array_dtype)
    labels = np.roll(labels, -before, axis=0)
    named = mx.nd.from_numpy(labels, zero_copy=False)
    if options.costs == "upstream":
        return _copied_batches(
            data, named, contexts, mx.cpu_pinned(0) if options.gpus else mx.cpu(0)
        )
    batches = [split(data, label, contexts) for label in named]
    mx.nd.waitall()
    return itertools.cycle(batches)


def _copied_batches(data: Any, labels: Any, contexts: list[Any], host: Any) -> Iterator[Batch]:
    """Yield the images with new labels, copied from the host in each step.

    Upstream's Module also copies into the same arrays on each device.
    """

    def parts(array: Any) -> list[Any]:
        split = mx.gluon.utils.split_data
        return list(split(array.as_in_context(host), len(contexts), even_split=False))

    images, named = parts(data), [parts(label) for label in labels]
    batch = tuple(
        [mx.nd.empty(part.shape, at, part.dtype) for part, at in zip(some, contexts, strict=True)]
        for some in (images, named[0])
    )
    for number in itertools.count():
        for given, there in zip((images, named[number % len(named)]), batch, strict=True):
            for part, target in zip(given, there, strict=True):
                part.copyto(target)
        yield batch[0], batch[1]


def shuffled_orders(options: Options, portion: WorkerPartition) -> Iterator[Any]:
    """Yield the portion's images in a new random order for every epoch, without end."""
    for epoch in itertools.count():
        yield np.random.default_rng((options.seed, epoch)).permutation(portion.images)


@dataclass(kw_only=True)
class Reader:
    """Reader of a stream of batches.

    before  number of batches to skip, which an interrupted training used
    waited  seconds so far that it waited for images, not for MXNet's work on an older batch
    """

    rank: int = 0
    before: int = 0
    waited: float = 0.0


def training_batches(
    options: Options,
    portion: WorkerPartition,
    orders: Iterable[Any],
    reader: Reader | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield images and labels, epoch after epoch; a batch may span two epochs.

    Each rank augments its images differently, and reproducibly.

    A caller must submit all work on a batch to MXNet before it requests the next batch but one:
    the batch's memory is reused when that work is done.
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

    def draws(number: int) -> np.random.Generator:
        return np.random.default_rng((options.seed, reader.rank, number))

    changes = draws if options.augmentation != NONE else None
    pieces = itertools.islice(_batch_orders(orders, size), reader.before, None)
    numbered = enumerate(pieces, reader.before)
    return _decoded_batches(options, portion, numbered, changes, reader)


def validation_batches(
    options: Options, portion: WorkerPartition, batch_size: int
) -> Iterator[tuple[Any, Any, int]]:
    """Yield images and labels of one epoch in order, and the number of valid images.

    The last batch is padded with the first images; only its valid images are scored. Memory is
    reused as in `training_batches`.
    """
    images = portion.images
    order = np.resize(np.arange(images), -(-images // batch_size) * batch_size)
    pieces = enumerate(_batch_orders([order], batch_size))
    batches = _decoded_batches(options, portion, pieces)
    for number, (data, label) in enumerate(batches):
        yield data, label, min(batch_size, images - number * batch_size)


def _batch_orders(orders: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield the concatenated orders in pieces of this size."""
    left = np.empty(0, np.int64)
    for order in orders:
        left = np.concatenate([left, order])
        whole = len(left) // size * size
        yield from left[:whole].reshape(-1, size)
        left = left[whole:]


@dataclass(frozen=True, kw_only=True)
class _Buffer:
    """The arrays of a batch, and their memory, which threads write."""

    data: Any
    label: Any
    images: Any
    labels: Any


def _decoded_batches(
    options: Options,
    portion: WorkerPartition,
    pieces: Iterable[tuple[int, Any]],
    draws: Draws | None = None,
    reader: Reader | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield numbered batches, decoded ahead by `data_nthreads` threads."""
    where = places(portion.paths)[portion.first : portion.first + portion.images]
    read = partial(_read, options, portion, draws)
    pool = ThreadPoolExecutor(options.data_nthreads, thread_name_prefix="decode")
    rooms: list[_Buffer] = []
    started: deque[tuple[_Buffer, list[Future[None]]]] = deque()
    reader = reader or Reader()
    try:
        for turn, (count, piece) in enumerate(pieces):
            if len(rooms) < options.prefetch_buffer + 2:
                rooms.append(_buffer(options, len(piece)))
            room = rooms[turn % len(rooms)]
            started.append((room, _start(pool, read, where[piece], count * len(piece), room)))
            if len(started) > options.prefetch_buffer:
                yield _finished(*started.popleft(), reader)
        while started:
            yield _finished(*started.popleft(), reader)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _read(
    options: Options,
    portion: WorkerPartition,
    draws: Draws | None,
    place: Any,
    into: tuple[int, Any],
) -> float:
    """Read the image of a number in this stream into its memory; return its label."""
    file, offset, length = place
    number, out = into
    draw = draws(number) if draws else None
    return read_image((portion.paths[file], offset, length), options, out, draw)


def _start(
    pool: ThreadPoolExecutor, read: Callable[..., float], where: Any, begun: int, room: _Buffer
) -> list["Future[None]"]:
    """Start reading a batch; `begun` images of the stream precede it."""

    def fill(first: int) -> None:
        some = where[first : first + _IMAGES_A_TASK].tolist()
        for number, place in enumerate(some, first):
            room.labels[number] = read(place, (begun + number, room.images[number]))

    for array in (room.data, room.label):  # wait for the work on the previous batch
        mx.base.check_call(mx.base._LIB.MXNDArrayWaitToWrite(array.handle))
    return [pool.submit(fill, first) for first in range(0, len(where), _IMAGES_A_TASK)]


def _finished(room: _Buffer, tasks: list["Future[None]"], reader: Reader) -> tuple[Any, Any]:
    start = time.perf_counter()
    for task in tasks:
        task.result()
    reader.waited += time.perf_counter() - start
    return room.data, room.label


def _buffer(options: Options, size: int) -> _Buffer:
    # Copies to a GPU are faster from pinned memory.
    context = mx.cpu_pinned(0) if options.gpus else mx.cpu(0)
    data, label = (mx.nd.empty((size, *rest), context) for rest in (options.image_shape, ()))
    return _Buffer(data=data, label=label, images=_memory_of(data), labels=_memory_of(label))


def _memory_of(array: Any) -> Any:
    pointer = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    floats = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(floats, shape=array.shape)
