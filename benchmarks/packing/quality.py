"""Compare the quality of scaled images with upstream's im2rec.py.

SSIM of the pixels before encoding, relative to OpenCV's full decoding with area interpolation to
the same size. Only images that are scaled down count. Results: docs/explanation/data-benchmarks.md.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from skimage.metrics import structural_similarity
from tabulate import tabulate

from im2rec_tools.commands.sample import sample
from im2rec_tools.formats.images import decode, resize, size_of
from im2rec_tools.formats.recipe import Recipe


def similarities(data: bytes, recipe: Recipe) -> tuple[float, float] | None:
    """Return the SSIM of mxscale and of upstream; None if it is not scaled down."""
    whole: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if min(whole.shape[:2]) <= recipe.short_edge:
        return None
    height, width = whole.shape[:2]
    size = size_of(height, width, recipe)
    ours = resize(decode(data, recipe), size, recipe)
    best = cv2.resize(whole, size, interpolation=cv2.INTER_AREA)
    theirs = cv2.resize(whole, size)
    ssim: Any = structural_similarity
    found = [ssim(best, one, channel_axis=2) for one in (ours, theirs)]
    return found[0], found[1]


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.packing.quality", description=__doc__)
    parser.add_argument(
        "--images",
        metavar="N",
        type=int,
        default=1000,
        help="Maximum number of images of the sample [%(default)s]",
    )
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for _ in sample(Path(work) / "images", shape="imagenet", images_per_class=1):
            pass
        files = sorted(Path(work).rglob("*.JPEG"))[: given.images]
        for edge in (256, 480):
            recipe = Recipe(short_edge=edge)
            pairs = [pair for file in files if (pair := similarities(file.read_bytes(), recipe))]
            for name, values in zip(("mxscale", "upstream"), zip(*pairs, strict=True), strict=True):
                mean = f"{statistics.fmean(values):.4f}"
                rows.append([edge, name, len(values), mean, f"{min(values):.4f}"])
    headings = ["short edge", "packer", "images", "SSIM mean", "minimum"]
    print(tabulate(rows, headings, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
