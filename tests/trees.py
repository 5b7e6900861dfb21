"""Small labelled trees of images for tests, and shards made of them."""

from pathlib import Path

import cv2
import numpy as np

from im2rec_tools.codec import Recipe
from im2rec_tools.prepare import Shard, Wanted, prepare

SMALL = Wanted(val_per_class=2, train_shards=2, recipe=Recipe(short_edge=64))


def jpeg(height: int, width: int, seed: int = 0) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return cv2.imencode(".jpg", cv2.resize(noise, (width, height)))[1].tobytes()


def tree(root: Path, counts: dict[str, int]) -> Path:
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number}.jpg").write_bytes(jpeg(70 + number, 90, number))
    return root


def made(root: Path, wanted: Wanted = SMALL) -> list[Shard]:
    return [update for update in prepare(root, wanted) if isinstance(update, Shard)]
