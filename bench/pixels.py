"""What becomes of a record: its image decoded, cropped in the middle and normalised, its label."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import simplejpeg

from bench.errors import SpecError
from bench.options import Options
from im2rec_tools.errors import DataError
from im2rec_tools.recordio import read_record, unpack

_MANNERS = {1: ("GRAY", cv2.IMREAD_GRAYSCALE), 3: ("RGB", cv2.IMREAD_COLOR_RGB)}


def read_image(path: Path, offset: int, length: int, options: Options, out: Any) -> float:
    """Fills `out`, float32 of (channels, height, width), from a record; returns its label.

    The values are those of MXNet's ImageRecordIter: RGB, the crop from the middle, (value - mean)
    / std. Raises SpecError naming the record that holds no such image.
    """
    where = f"{path}: the record at byte {offset}"
    try:
        record = unpack(read_record(path, offset, length), where)
    except DataError as error:
        raise SpecError(str(error)) from error
    if len(record.labels) != 1:
        raise SpecError(f"{where}: expected one label, found {len(record.labels)}")
    if not options.test_io and not 0 <= record.labels[0] < options.num_classes:
        raise SpecError(
            f"{where}: its label is {record.labels[0]:g}, outside of --num-classes "
            f"{options.num_classes}; expected 0 to {options.num_classes - 1}"
        )
    planes = _planes(_cropped(_decoded(record.image, len(out), where), out.shape[1:], where))
    for channel, plane in enumerate(planes):
        np.subtract(plane, np.float32(options.rgb_mean[channel]), out=out[channel])
        if options.rgb_std[channel] != 1:
            out[channel] *= np.float32(1 / options.rgb_std[channel])
    return record.labels[0]


def _decoded(image: bytes, channels: int, where: str) -> Any:
    """Pixels of (height, width, channels); OpenCV gets what is not JPEG, or damaged."""
    if channels not in _MANNERS:
        raise SpecError(f"--image-shape: expected 1 or 3 channels, got {channels}")
    colorspace, flag = _MANNERS[channels]
    if image[:2] == b"\xff\xd8":
        try:
            return simplejpeg.decode_jpeg(image, colorspace=colorspace, strict=False)
        except ValueError:
            pass
    pixels = cv2.imdecode(np.frombuffer(image, np.uint8), flag) if image else None
    if pixels is None:
        raise SpecError(
            f"{where}: holds no image that can be decoded; find such records with "
            f"'fab data.verify', and pack them again"
        )
    return pixels


def _cropped(pixels: Any, size: tuple[int, int], where: str) -> Any:
    height, width = size
    top, left = pixels.shape[0] - height, pixels.shape[1] - width
    if min(top, left) < 0:
        raise SpecError(
            f"{where}: its image has {pixels.shape[1]} x {pixels.shape[0]} pixels, too few for "
            f"{width} x {height}; ask for a smaller --image-shape, or pack with --enlarge-small"
        )
    top, left = top // 2, left // 2
    return pixels[top : top + height, left : left + width]


def _planes(pixels: Any) -> Any:
    return cv2.split(pixels) if pixels.ndim == 3 and pixels.shape[2] > 1 else [pixels.squeeze()]
