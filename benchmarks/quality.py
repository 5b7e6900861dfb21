"""How close resized images are to the best way: `python -m benchmarks.quality`.

SSIM of the pixels before encoding, ours and upstream's, against OpenCV's full decoding and area
interpolation to the same size, over the images that are larger than the short edge.
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
    """SSIM of ours and of upstream's way; None for an image that is not scaled down."""
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
    """Parses the command line and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1000, help="of the sample, at most")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as work:
        for _ in sample(Path(work) / "images", shape="imagenet", images_per_class=1):
            pass
        files = sorted(Path(work).rglob("*.JPEG"))[: given.images]
        for edge in (256, 480):
            recipe = Recipe(short_edge=edge)
            pairs = [pair for file in files if (pair := similarities(file.read_bytes(), recipe))]
            for name, values in zip(("ours", "upstream"), zip(*pairs, strict=True), strict=True):
                mean = f"{statistics.fmean(values):.4f}"
                rows.append([edge, name, len(values), mean, f"{min(values):.4f}"])
    headings = ["short edge", "way", "images", "SSIM mean", "least"]
    print(tabulate(rows, headings, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
