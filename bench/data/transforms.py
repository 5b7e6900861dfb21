"""Records to network input: decoding, cropping, normalization."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import simplejpeg

from bench.data.augmentation import augment
from bench.data.augmentation_options import NONE, AugmentationOptions
from bench.errors import SpecError, error_line
from bench.training.options import Options
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import read_record, unpack

# The fix for shards that were damaged after packing.
_FIND = (
    "For data pushed to a host: find damaged shards by 'fab hosts.check --data DIR --verify', "
    "copy them again by 'fab hosts.push-data DIR --verify'"
)
_COLOR_MODES = {1: ("GRAY", cv2.IMREAD_GRAYSCALE), 3: ("RGB", cv2.IMREAD_COLOR_RGB)}


# File, offset and length in bytes, and the descriptor of the file if it is open.
Place = tuple[Path, int, int, int | None]


def read_image(place: Place, options: Options, out: Any, draw: Any = None) -> float:
    """Decode a record into `out` and return its label.

    `out` is float32 of shape (channels, height, width). With `draw`, a NumPy Generator, the image
    is augmented by `options.augmentation`; otherwise the values equal those of MXNet's
    ImageRecordIter: RGB, center crop, (value - mean) / std. Raises SpecError with the record's
    position if it holds no such image.
    """
    where = f"{place[0]}: the record at byte {place[1]}"
    try:
        record = unpack(read_record(*place), where)
    except DataError as error:
        raise SpecError(error_line("", problem=str(error), fix=_FIND)) from error
    if len(record.labels) != 1:
        raise SpecError(
            error_line(
                where,
                expected="one label",
                got=len(record.labels),
                fix="Pack the images with one label each",
            )
        )
    if not options.test_io and not 0 <= record.labels[0] < options.num_classes:
        raise SpecError(
            error_line(
                where,
                expected=(
                    f"a label from 0 to {options.num_classes - 1} (--num-classes "
                    f"{options.num_classes})"
                ),
                got=f"{record.labels[0]:g}",
                fix="Set --num-classes to the number of classes",
            )
        )
    fill(record.image, options, out, where, draw)
    return record.labels[0]


def fill(image: bytes, options: Options, out: Any, where: str, draw: Any = None) -> None:
    """Decode, crop and normalize an encoded image into `out`, as `read_image` does.

    Raises SpecError that begins with `where` if there is no such image.
    """
    pixels = _decode(image, len(out), where)
    _check_size(pixels, options.augmentation if draw else NONE, out.shape[1:], where)
    if draw:
        pixels = augment(pixels, options.augmentation, out.shape[1:], draw)
    height, width = out.shape[1:]
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    pixels = pixels[top : top + height, left : left + width]
    colors = pixels.ndim == 3 and pixels.shape[2] > 1
    planes = cv2.split(pixels) if colors else [pixels.squeeze()]
    for channel, plane in enumerate(planes):
        # One vectorized pass from uint8 to float32; NumPy converts piece by piece.
        out[channel].fill(-options.rgb_mean[channel])
        cv2.accumulate(plane, out[channel])
        if options.rgb_std[channel] != 1:
            out[channel] *= np.float32(1 / options.rgb_std[channel])


def _decode(image: bytes, channels: int, where: str) -> Any:
    """Decode an image to an array of shape (height, width, channels).

    OpenCV decodes damaged JPEG files and other formats.
    """
    if channels not in _COLOR_MODES:
        raise SpecError(error_line("--image-shape", expected="1 or 3 channels", got=channels))
    colorspace, flag = _COLOR_MODES[channels]
    if image[:2] == b"\xff\xd8":
        try:
            return simplejpeg.decode_jpeg(image, colorspace=colorspace, strict=False)
        except ValueError:
            pass
    pixels = cv2.imdecode(np.frombuffer(image, np.uint8), flag) if image else None
    if pixels is None:
        raise SpecError(
            error_line(
                where,
                expected="an image that can be decoded",
                fix=f"Find such records by 'fab data.verify' and pack them again. {_FIND}",
            )
        )
    return pixels


def _check_size(pixels: Any, asked: AugmentationOptions, size: tuple[int, int], where: str) -> None:
    height, width = asked.fewest_pixels(size)
    if pixels.shape[0] < height or pixels.shape[1] < width:
        raise SpecError(
            error_line(
                where,
                expected=f"an image of at least {width} x {height} pixels",
                got=f"{pixels.shape[1]} x {pixels.shape[0]}",
                fix="Use a smaller --image-shape, such as that of data.prepare's sweep file, or a "
                "smaller crop, or pack with --enlarge-small",
            )
        )
