"""Sample images: crops of photographs, and digits, by class and size."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from im2rec_tools.errors import DataError, error_line

# Class to file. All are in the public domain or under CC0, according to scikit-image's docs.
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
_CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
_MNIST_TRAIN = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
_MNIST_TEST = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
# Share of ImageNet's images with each range of widths and heights: docs/reference/data-formats.md.
_SIZES: tuple[tuple[float, tuple[int, int], tuple[int, int]], ...] = (
    (0.62, (500, 500), (333, 480)),
    (0.12, (120, 400), (100, 320)),
    (0.12, (640, 640), (480, 480)),
    (0.095, (700, 1100), (525, 825)),
    (0.035, (1600, 1600), (1200, 1200)),
    (0.01, (2592, 2592), (1944, 1944)),
)
_SMALLEST_EDGE = 256

Draw = Callable[[int, random.Random], tuple[Any, list[int]]]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Shape of a data set: images per class, file extension, drawing function.

    draw: takes the class's number and a random generator; returns uint8 pixels and options for
    OpenCV's encoder.
    """

    train: dict[str, int]
    val: dict[str, int]
    ending: str
    draw: Draw


@cache
def photograph(file: str) -> Any:
    """Read a scikit-image photograph: uint8 pixels, (H, W) or (H, W, 3) in BGR."""
    import skimage  # noqa: PLC0415 - only for its photographs

    path = Path(skimage.__file__).parent / "data" / file
    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise DataError(
            error_line(
                path,
                expected="a photograph of scikit-image",
                got="none",
                fix="Reinstall it with 'make setup'",
            )
        )
    return pixels


def _crop(pixels: Any, height: int, width: int, draw: random.Random) -> Any:
    top = draw.randint(0, pixels.shape[0] - height)
    left = draw.randint(0, pixels.shape[1] - width)
    return pixels[top : top + height, left : left + width]


def _quality(draw: random.Random) -> list[int]:
    return [cv2.IMWRITE_JPEG_QUALITY, draw.randint(75, 98)]


def _photograph(number: int, draw: random.Random) -> tuple[Any, list[int]]:
    pixels = photograph(list(PHOTOGRAPHS.values())[number])
    height = draw.randint(_SMALLEST_EDGE, min(pixels.shape[0], 640))
    width = draw.randint(_SMALLEST_EDGE, min(pixels.shape[1], 640))
    return _crop(pixels, height, width, draw), _quality(draw)


def _digit(number: int, draw: random.Random) -> tuple[Any, list[int]]:
    """Draw a digit, white on black, with random rotation, position and stroke."""
    big = np.zeros((112, 112), np.uint8)
    place = (draw.randint(22, 40), draw.randint(80, 96))
    scale, stroke = draw.uniform(2.2, 2.9), draw.randint(6, 12)
    cv2.putText(big, str(number), place, draw.choice((0, 2, 3)), scale, 255, stroke)
    turn = cv2.getRotationMatrix2D((56, 56), draw.uniform(-15, 15), 1)
    return cv2.resize(cv2.warpAffine(big, turn, (112, 112)), (28, 28), interpolation=3), []


def _thumbnail(number: int, draw: random.Random) -> tuple[Any, list[int]]:
    """Draw a 32 x 32 crop of a photograph; class N uses the N-th photograph."""
    pixels = photograph(list(PHOTOGRAPHS.values())[number])
    edge = draw.randint(96, min(pixels.shape[0], pixels.shape[1], 384))
    small = cv2.resize(_crop(pixels, edge, edge, draw), (32, 32), interpolation=cv2.INTER_AREA)
    return (small if small.ndim == 3 else cv2.cvtColor(small, cv2.COLOR_GRAY2BGR)), []


def _internet_photograph(number: int, draw: random.Random) -> tuple[Any, list[int]]:
    """Draw a noisy crop in one of ImageNet's sizes, tinted by its class."""
    shares = [share for share, *_ in _SIZES]
    _, widths, heights = draw.choices(_SIZES, shares)[0]
    width, height = draw.randint(*widths), draw.randint(*heights)
    if draw.random() < 0.3:
        width, height = height, width
    pixels = photograph(draw.choice([*PHOTOGRAPHS.values()]))
    fit = min(pixels.shape[0] / height, pixels.shape[1] / width) * draw.uniform(0.6, 1)
    part = _crop(pixels, max(1, int(height * fit)), max(1, int(width * fit)), draw)
    image = cv2.resize(part, (width, height), interpolation=cv2.INTER_LINEAR)
    if image.ndim == 2:
        image = cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    tint = (number * 37 % 64, number * 59 % 64, number * 83 % 64)
    image = cv2.add(image, np.full(image.shape, tint, np.uint8))
    cv2.setRNGSeed(draw.randrange(2**31))
    noise = np.empty(image.shape, np.int16)
    spread = draw.uniform(0, 3)
    cv2.randn(noise, np.zeros(3), np.full(3, spread))
    return cv2.add(image, noise, dtype=cv2.CV_8U), _quality(draw)


def _imagenet_counts() -> dict[str, int]:
    """Return ILSVRC 2012's images per class: 732 to 1,300, in total 1,281,167."""
    counts = [1300] * 895 + [1125] * 39 + [1124] * 65 + [732]
    return {f"n{number:08}": count for number, count in enumerate(counts, 1)}


def shape_of(name: str) -> Shape:
    """Return the shape of photographs, mnist, cifar-10 or imagenet."""
    if name == "mnist":
        digits = [str(n) for n in range(10)]
        train = dict(zip(digits, _MNIST_TRAIN, strict=True))
        val = dict(zip(digits, _MNIST_TEST, strict=True))
        return Shape(train=train, val=val, ending=".png", draw=_digit)
    if name == "cifar-10":
        train, val = dict.fromkeys(_CIFAR, 5000), dict.fromkeys(_CIFAR, 1000)
        return Shape(train=train, val=val, ending=".png", draw=_thumbnail)
    if name == "imagenet":
        train = _imagenet_counts()
        val = dict.fromkeys(train, 50)
        return Shape(train=train, val=val, ending=".JPEG", draw=_internet_photograph)
    return Shape(train=dict.fromkeys(PHOTOGRAPHS, 70), val={}, ending=".jpg", draw=_photograph)
