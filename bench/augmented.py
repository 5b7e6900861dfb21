"""Training images that are changed at random, by MXNet's own reader.

It decodes in at most half as many threads as there are processors, and a damaged image ends the
process; what is read unchanged goes by inputs.py.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.errors import SpecError
from bench.mxnet_import import mx
from bench.options import Options
from bench.shards import places
from bench.shares import Portion


def forever(options: Options, portion: Portion, rank: int) -> Iterator[tuple[Any, Any]]:
    """Images and labels of one epoch after another; each rank changes its own in its own way."""
    iterator = _iterator(options, portion, rank)
    while True:
        iterator.reset()
        for batch in iterator:
            _check(batch.label[0].asnumpy(), options, portion)
            yield batch.data[0], batch.label[0]


def _check(labels: Any, options: Options, portion: Portion) -> None:
    if not 0 <= labels.min() <= labels.max() < options.num_classes:
        raise SpecError(
            f"{portion.data}: has labels from {labels.min():g} to {labels.max():g}, outside of "
            f"--num-classes {options.num_classes}"
        )


def _iterator(options: Options, portion: Portion, rank: int) -> Any:
    """An epoch's last batch wraps round to the first images: the other way has made-up ones."""
    each = -(-portion.total // portion.count)
    least = portion.total - each * (portion.count - 1)
    if least < options.batch_size:
        raise SpecError(
            f"{portion.data}: the smallest share of a worker is {least} images, fewer than a batch "
            f"of {options.batch_size}; use a smaller batch or fewer workers"
        )
    with tempfile.TemporaryDirectory() as folder:  # read at construction, not afterwards
        index = Path(folder) / "all.idx"
        index.write_text(_index(portion.paths), encoding="utf-8")
        return mx.io.ImageRecordIter(
            path_imgrec=";".join(map(str, portion.paths)),
            path_imgidx=str(index),
            data_shape=options.image_shape,
            batch_size=options.batch_size,
            part_index=portion.index,
            num_parts=portion.count,
            shuffle=True,
            seed=options.seed,
            seed_aug=(options.seed * 10007 + rank) % 2**31,
            preprocess_threads=options.data_nthreads,
            verbose=False,
            **{f"mean_{c}": value for c, value in zip("rgb", options.rgb_mean, strict=True)},
            **{f"std_{c}": value for c, value in zip("rgb", options.rgb_std, strict=True)},
            **dict(options.augmentation),
        )


def _index(paths: tuple[Path, ...]) -> str:
    """One .idx over all files: over a list of them MXNet's offsets run on from file to file."""
    bases = [0]
    for path in paths:
        bases.append(bases[-1] + path.stat().st_size)
    found = places(paths)[:, :2].tolist()
    return "".join(f"{n}\t{bases[file] + at}\n" for n, (file, at) in enumerate(found))
