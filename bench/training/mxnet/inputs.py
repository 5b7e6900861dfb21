"""Batches as MXNet's arrays: synthetic ones, and buffers for decoded ones."""

import ctypes
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.data import loader
from bench.data.partition import WorkerPartition
from bench.training.mxnet_shim import mx
from bench.training.options import Options

# One slice of images and one of labels per device.
Batch = tuple[list[Any], list[Any]]


def split(data: Any, label: Any, contexts: list[Any]) -> Batch:
    """Split a batch into one slice per device; the last slice has the remainder."""
    load = partial(mx.gluon.utils.split_and_load, even_split=False)
    return load(data, contexts), load(label, contexts)


def synthetic_batches(
    options: Options, contexts: list[Any], first: int, before: int = 0
) -> Iterator[Batch]:
    """Yield the images of `loader.synthetic_arrays` with new labels in each step.

    The images stay on the devices, or, with upstream's costs, are copied there in each step.
    """
    images, labels = loader.synthetic_arrays(options, first, before)
    data = mx.nd.from_numpy(images, zero_copy=False).astype(options.array_dtype)
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


@dataclass(kw_only=True)
class ArrayBuffer:
    """The arrays of a batch in the memory of the CPU."""

    data: Any
    label: Any
    images: Any
    labels: Any

    def wait(self) -> None:
        """Wait for MXNet's work on the previous batch."""
        for array in (self.data, self.label):
            mx.base.check_call(mx.base._LIB.MXNDArrayWaitToWrite(array.handle))


def buffers(options: Options) -> Callable[[int], ArrayBuffer]:
    """Return a function that makes a buffer for a number of images."""
    # Copies to a GPU are faster from pinned memory.
    context = mx.cpu_pinned(0) if options.gpus else mx.cpu(0)

    def made(size: int) -> ArrayBuffer:
        data, label = (mx.nd.empty((size, *rest), context) for rest in (options.image_shape, ()))
        images, labels = _memory_of(data), _memory_of(label)
        return ArrayBuffer(data=data, label=label, images=images, labels=labels)

    return made


def _memory_of(array: Any) -> Any:
    pointer = ctypes.c_void_p()
    mx.base.check_call(mx.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(pointer)))
    floats = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(floats, shape=array.shape)


def training_batches(
    options: Options,
    portion: WorkerPartition,
    orders: Iterable[Any],
    reader: loader.Reader | None = None,
) -> Iterator[tuple[Any, Any]]:
    """Yield decoded images and labels without end, as MXNet's arrays."""
    batches = loader.training_batches(options, portion, orders, buffers(options), reader)
    return ((one.data, one.label) for one in batches)


def validation_batches(
    options: Options, portion: WorkerPartition, batch_size: int
) -> Iterator[tuple[Any, Any, int]]:
    """Yield decoded images, labels and the number of valid images of one epoch."""
    batches = loader.validation_batches(options, portion, batch_size, buffers(options))
    return ((one.data, one.label, kept) for one, kept in batches)
