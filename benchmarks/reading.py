"""Compare the CPU time of reading an image with that of decoding it alone.

One process alternates between blocks that read each image once as a worker does (random crop,
mirror, normalization) and blocks that only decode its JPEG file. Results:
docs/explanation/input-pipeline.md.
"""

import argparse
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import cv2
import numpy as np
import simplejpeg

from bench.data.decoder import Stream, opened
from bench.data.partition import whole_data
from bench.data.shards import places
from bench.environment import describe
from bench.errors import SpecError
from bench.training.options import parse
from im2rec_tools.formats.recordio import read_record, unpack
from launch.hosts import ROOT

_SHAPE = "3,224,224"
_MOST_IMAGES = 200


def _cpu(block: Callable[[], None], images: int) -> float:
    """Return the CPU milliseconds of all threads per image."""
    began = time.process_time()
    block()
    return (time.process_time() - began) / images * 1e3


def _measured(stream: Stream, where: Any, blocks: int) -> list[tuple[float, float]]:
    """Return the CPU milliseconds per image of decoding and of reading, by block.

    where  file index, offset and length of each image
    """
    cv2.setNumThreads(1)
    paths = stream.portion.paths
    encoded = [unpack(read_record(paths[n], *at), "").image for n, *at in where.tolist()]
    out = np.empty(stream.options.image_shape, np.float32)

    def decode() -> None:
        for image in encoded:
            simplejpeg.decode_jpeg(image, colorspace="RGB", strict=False)

    with opened(paths) as files:

        def read() -> None:
            for number, place in enumerate(where):
                stream.read(files, place, number, out)

        decode()
        read()
        return [(_cpu(decode, len(where)), _cpu(read, len(where))) for _ in range(blocks)]


def main() -> None:
    """Print the median CPU milliseconds per image of both, and the ratio."""
    parser = argparse.ArgumentParser("python -m benchmarks.reading", description=__doc__)
    parser.add_argument(
        "data", metavar="DATA", help="Shard or folder of shards, such as data/mine_rec/train"
    )
    parser.add_argument(
        "blocks",
        metavar="BLOCKS",
        nargs="?",
        type=int,
        default=25,
        help="Blocks of each kind; medians are printed [%(default)s]",
    )
    given = parser.parse_args()
    if given.blocks < 1:
        parser.error(f"BLOCKS: expected at least 1, got {given.blocks}")
    try:
        portion = whole_data(given.data)
    except SpecError as error:
        parser.error(str(error))
    line = ("--data-train", given.data, "--image-shape", _SHAPE)
    options = parse([*line, "--random-crop", "1", "--random-mirror", "1"])
    where = places(portion.paths)[:_MOST_IMAGES]
    pairs = _measured(Stream(options=options, portion=portion, rank=0), where, given.blocks)
    here = describe(ROOT)
    print(
        f"{here['processor']}, {here['cores']} cores, Python {here['python']}, load "
        f"{os.getloadavg()[0]:.1f}; {len(where)} images, n = {given.blocks} blocks"
    )
    alone, whole = (median(column) for column in zip(*pairs, strict=True))
    ratio = median(reading / decoding for decoding, reading in pairs)
    print(f"reading {whole:.3f} CPU ms per image, decoding alone {alone:.3f}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
