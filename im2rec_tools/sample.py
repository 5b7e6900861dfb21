"""A small labelled tree of real photographs, cut from those that scikit-image carries.

docs/data.md names the source and licence of each.
"""

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2

from im2rec_tools.errors import DataError
from im2rec_tools.tree import classes

# Class to file: those in the public domain or under CC0, by scikit-image's own documentation.
PHOTOGRAPHS = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "galaxies": "hubble_deep_field.jpg",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
}
_SMALLEST_EDGE = 256


@dataclass(frozen=True, kw_only=True)
class Made:
    """How many of `total` images there are so far."""

    done: int
    total: int


def sample(root: Path, *, images_per_class: int, seed: int = 0) -> Iterator[Made]:
    """Makes the tree at `root`, the same for the same arguments; yields after each class.

    Each class is one photograph, its images JPEG crops with both edges of 256 pixels or more, at
    qualities of 75 to 98. A tree that is there already, whole, is left as it is. Raises DataError
    where `root` holds something else.
    """
    total = images_per_class * len(PHOTOGRAPHS)
    if root.exists() and not root.is_dir():
        raise DataError(f"{root}: is a file; expected an empty or new folder")
    if root.exists() and any(root.iterdir()):
        # After `split`, part of each class lies in the validation tree beside it.
        trees = [tree for tree in (root, root.with_name(root.name + "_val")) if tree.is_dir()]
        count = sum(len(paths) for tree in trees for paths in classes(tree).values())
        if count != total or set(classes(root)) != set(PHOTOGRAPHS):
            raise DataError(
                f"{root}: expected an empty or new folder, found something else than a sample of "
                f"{images_per_class} images a class; choose another, or remove it"
            )
        yield Made(done=total, total=total)
        return
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root.parent, prefix=".sample-") as work:
            for number, (name, file) in enumerate(PHOTOGRAPHS.items(), 1):
                draw = random.Random(f"{seed} {name}")
                _cut(_photograph(file), Path(work) / "tree" / name, images_per_class, draw)
                yield Made(done=number * images_per_class, total=total)
            (Path(work) / "tree").rename(root)
    except OSError as error:
        raise DataError(f"{root}: cannot be written ({error.strerror})") from error


def _photograph(file: str) -> Any:
    """Pixels (H, W) or (H, W, 3), BGR, uint8."""
    import skimage  # noqa: PLC0415 - only for its photographs

    path = Path(skimage.__file__).parent / "data" / file
    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise DataError(f"{path}: expected a photograph of scikit-image there, found none")
    return pixels


def _cut(pixels: Any, folder: Path, count: int, draw: random.Random) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        height = draw.randint(_SMALLEST_EDGE, min(pixels.shape[0], 640))
        width = draw.randint(_SMALLEST_EDGE, min(pixels.shape[1], 640))
        top = draw.randint(0, pixels.shape[0] - height)
        left = draw.randint(0, pixels.shape[1] - width)
        crop = pixels[top : top + height, left : left + width]
        quality = [cv2.IMWRITE_JPEG_QUALITY, draw.randint(75, 98)]
        cv2.imwrite(str(folder / f"{folder.name}_{number:04}.jpg"), crop, quality)
