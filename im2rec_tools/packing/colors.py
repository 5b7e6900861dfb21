"""Mean and standard deviation of the colors of packed images."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from im2rec_tools.formats.recordio import offsets_of, read_record, unpack

# Number of images that are read, or a few more: one more of each shard.
_MOST = 500

Colors = tuple[float, float, float]


def color_statistics(shards: Sequence[Path]) -> tuple[Colors, Colors]:
    """Return mean and standard deviation of red, green and blue, from 0 to 255.

    Every image of an evenly spaced sample has the same weight.
    """
    import cv2  # noqa: PLC0415 - takes long to load
    import numpy as np  # noqa: PLC0415

    means, squares = [], []
    for image in _sample(shards):
        pixels: Any = cv2.imdecode(np.frombuffer(image, np.uint8), cv2.IMREAD_COLOR)
        mean, deviation = (one.ravel()[::-1] for one in cv2.meanStdDev(pixels))
        means.append(mean)
        squares.append(mean**2 + deviation**2)
    mean = np.mean(means, axis=0)
    variance = np.mean(squares, axis=0) - mean**2
    # At least 1: training divides by it, and images of one color have none.
    return _rounded(mean), _rounded(np.sqrt(np.maximum(variance, 1)))


def _rounded(values: Sequence[float]) -> Colors:
    red, green, blue = (round(float(value), 3) for value in values)
    return red, green, blue


def _sample(shards: Sequence[Path]) -> Iterator[bytes]:
    each = -(-_MOST // len(shards))
    for rec in shards:
        offsets = offsets_of(rec)
        ends = [*offsets[1:], rec.stat().st_size]
        for at in range(0, len(offsets), -(-len(offsets) // each)):
            payload = read_record(rec, offsets[at], ends[at] - offsets[at])
            yield unpack(payload, str(rec)).image
