"""Records to network input: decoding, cropping, normalization."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import simplejpeg

from bench.data.augmentation import augment, fewest_pixels
from bench.data.augmentation_options import NONE, AugmentationOptions
from bench.errors import SpecError
from bench.training.options import Options
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import read_record, unpack

# Where a shard was packed well and has rotted since.
_FIND = (
    "of data pushed to a host, 'fab hosts.check --data DIR --verify' finds what is damaged there, "
    "and 'fab hosts.push-data DIR --verify' copies it again"
)
_COLOR_MODES = {1: ("GRAY", cv2.IMREAD_GRAYSCALE), 3: ("RGB", cv2.IMREAD_COLOR_RGB)}


def read_image(place: tuple[Path, int, int], options: Options, out: Any, draw: Any = None) -> float:
    """Fills `out`, float32 of (channels, height, width), from a record; returns its label.

    `place` is its file, the byte it begins at and its length. With `draw`, a numpy Generator, the
    image is changed as `options.augmentation` says; else the values are those of MXNet's
    ImageRecordIter: RGB, the crop from the middle, (value - mean) / std. Raises SpecError naming
    the record that holds no such image.
    """
    where = f"{place[0]}: the record at byte {place[1]}"
    try:
        record = unpack(read_record(*place), where)
    except DataError as error:
        raise SpecError(f"{error}; {_FIND}") from error
    if len(record.labels) != 1:
        raise SpecError(f"{where}: expected one label, found {len(record.labels)}")
    if not options.test_io and not 0 <= record.labels[0] < options.num_classes:
        raise SpecError(
            f"{where}: its label is {record.labels[0]:g}, outside of --num-classes "
            f"{options.num_classes}; expected 0 to {options.num_classes - 1}"
        )
    pixels = _decode(record.image, len(out), where)
    _check_size(pixels, options.augmentation if draw else NONE, out.shape[1:], where)
    if draw:
        pixels = augment(pixels, options.augmentation, out.shape[1:], draw)
    height, width = out.shape[1:]
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    pixels = pixels[top : top + height, left : left + width]
    colors = pixels.ndim == 3 and pixels.shape[2] > 1
    planes = cv2.split(pixels) if colors else [pixels.squeeze()]
    for channel, plane in enumerate(planes):
        np.subtract(plane, np.float32(options.rgb_mean[channel]), out=out[channel])
        if options.rgb_std[channel] != 1:
            out[channel] *= np.float32(1 / options.rgb_std[channel])
    return record.labels[0]


def _decode(image: bytes, channels: int, where: str) -> Any:
    """Pixels of (height, width, channels); OpenCV gets what is not JPEG, or damaged."""
    if channels not in _COLOR_MODES:
        raise SpecError(f"--image-shape: expected 1 or 3 channels, got {channels}")
    colorspace, flag = _COLOR_MODES[channels]
    if image[:2] == b"\xff\xd8":
        try:
            return simplejpeg.decode_jpeg(image, colorspace=colorspace, strict=False)
        except ValueError:
            pass
    pixels = cv2.imdecode(np.frombuffer(image, np.uint8), flag) if image else None
    if pixels is None:
        raise SpecError(
            f"{where}: holds no image that can be decoded; find such records with "
            f"'fab data.verify', and pack them again; {_FIND}"
        )
    return pixels


def _check_size(pixels: Any, asked: AugmentationOptions, size: tuple[int, int], where: str) -> None:
    height, width = fewest_pixels(asked, size)
    if pixels.shape[0] < height or pixels.shape[1] < width:
        raise SpecError(
            f"{where}: its image has {pixels.shape[1]} x {pixels.shape[0]} pixels, too few for "
            f"{width} x {height}; ask for a smaller --image-shape or crop, or pack with "
            f"--enlarge-small"
        )
