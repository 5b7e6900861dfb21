"""Batches for one worker: synthetic ones, or decoded from its share of the shards."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.errors import SpecError
from bench.mxnet_import import mx
from bench.options import Options
from bench.shards import merged_index
from bench.shares import Portion

# Enough to make learning by heart slow, few enough to cost nothing.
_LABEL_BATCHES = 64

# One slice of images and one of labels a device.
Batch = tuple[list[Any], list[Any]]


def split(data: Any, label: Any, contexts: list[Any]) -> Batch:
    """A batch cut into equal slices, one on each device."""
    load = mx.gluon.utils.split_and_load
    return load(data, contexts), load(label, contexts)


def synthetic(options: Options, contexts: list[Any], rank: int) -> Iterator[Batch]:
    """Random images, uniform in [-1, 1], for ever the same; labels drawn anew for each step.

    A network that can learn its batch by heart drives the loss to 0, and the denormal numbers
    that follow slow the arithmetic. Each rank draws its own from `seed`.
    """
    mx.random.seed(options.seed * 1000 + rank)
    shape = (options.batch_size, *options.image_shape)
    data = mx.nd.random.uniform(-1, 1, shape=shape).astype(options.array_dtype)
    labels = mx.nd.random.randint(0, options.num_classes, (_LABEL_BATCHES, options.batch_size))
    batches = [split(data, label, contexts) for label in labels.astype("float32")]
    mx.nd.waitall()
    return itertools.cycle(batches)


def record_iterator(options: Options, portion: Portion, batch_size: int, *, shuffle: bool) -> Any:
    """MXNet's ImageRecordIter over what a worker reads of the shards.

    The last batch of an epoch wraps round to the first images, with `pad` saying how many:
    ImageRecordIter's other way of ending fills it with uninitialised memory.
    """
    if portion.fewest < batch_size:
        raise SpecError(
            f"{portion.data}: the smallest share of a worker is {portion.fewest} images, fewer "
            f"than a batch of {batch_size}; use a smaller batch or fewer workers"
        )
    paths = portion.paths
    settings: dict[str, Any] = {
        "path_imgrec": ";".join(map(str, paths)),
        "data_shape": options.image_shape,
        "batch_size": batch_size,
        "part_index": portion.index,
        "num_parts": portion.count,
        "shuffle": shuffle,
        "seed": options.seed,
        "preprocess_threads": options.data_nthreads,
        **{f"mean_{c}": value for c, value in zip("rgb", options.rgb_mean, strict=True)},
        **{f"std_{c}": value for c, value in zip("rgb", options.rgb_std, strict=True)},
        "verbose": False,
    }
    text = merged_index(paths)
    if text is None:
        return mx.io.ImageRecordIter(**settings)
    with tempfile.TemporaryDirectory() as folder:  # read at construction, not afterwards
        merged = Path(folder) / "merged.idx"
        merged.write_text(text, encoding="utf-8")
        return mx.io.ImageRecordIter(path_imgidx=str(merged), **settings)


def forever(iterator: Any) -> Iterator[tuple[Any, Any]]:
    """Images and labels of one epoch after another."""
    while True:
        iterator.reset()
        for batch in iterator:
            yield batch.data[0], batch.label[0]
