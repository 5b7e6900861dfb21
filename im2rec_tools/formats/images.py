"""Decoding, resizing and encoding of images for records."""

import io
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.formats.recipe import Recipe

_JPEG = b"\xff\xd8\xff"
# From this ratio on, linear interpolation alone skips too many pixels
# (docs/explanation/data-benchmarks.md).
_BOX_FROM = 1.75
_LONGEST_EDGE = 65_500  # libjpeg's
_ORIENTATION = 0x0112  # of EXIF
_MARKER, _START_OF_SCAN, _APP1 = 0xFF, 0xDA, 0xE1
Image.MAX_IMAGE_PIXELS = None  # only EXIF is read with PIL
_PROBLEMS = (ValueError, MemoryError, OverflowError, OSError, SyntaxError, LookupError, cv2.error)
# OpenCV flip code that, after a transposition from 5 on, turns an image upright (EXIF 2.3).
_FLIPS = {2: 1, 3: -1, 4: 0, 5: None, 6: 1, 7: -1, 8: 0}
_READ = {
    "color": cv2.IMREAD_COLOR,
    "grey": cv2.IMREAD_GRAYSCALE,
    "unchanged": cv2.IMREAD_UNCHANGED,
}


def file_size(path: Path) -> tuple[int, int, int]:
    """Return width, height and EXIF orientation of an image file from its header.

    Raises DataError, without the path, for another file.
    """
    try:
        if not path.is_file():  # opening a named pipe would block
            raise DataError(error_line("", problem="not a regular file"))
        with Image.open(path) as image:
            jpeg = image.format == "JPEG"
            turn = image.getexif().get(_ORIENTATION, 1) if jpeg else 1
            return (*image.size, turn if turn in _FLIPS else 1)
    except _PROBLEMS as error:
        raise DataError(error_line("", problem=f"not an image ({_line(error)})")) from error


def encode(data: bytes, recipe: Recipe) -> bytes:
    """Encode an image by the recipe; raise DataError for a bad image."""
    if not data:
        raise DataError(error_line("", problem="the file is empty"))
    if recipe.keep_bytes == "all":
        check(data)
        return data
    try:
        if data.startswith(_JPEG):
            return _from_jpeg(data, recipe)
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), _READ[recipe.color])
        if pixels is None:
            raise DataError(error_line("", problem="not an image that OpenCV can decode"))
        height, width = pixels.shape[:2]
        return encode_pixels(resize(pixels, size_of(height, width, recipe), recipe), recipe)
    except _PROBLEMS as error:
        problem = f"cannot be decoded or encoded ({_line(error)})"
        raise DataError(error_line("", problem=problem)) from error


def check(data: bytes) -> tuple[int, int]:
    """Decode an image; return height and width. Raise DataError for a bad image.

    A JPEG is decoded in grayscale at 1/8 of its size. That reads every coefficient, so it finds
    the same errors as full decoding in less than half the time.
    """
    try:
        if data.startswith(_JPEG):
            height, width, *_ = simplejpeg.decode_jpeg_header(data)
            simplejpeg.decode_jpeg(data, colorspace="GRAY", min_height=1, min_width=1, strict=True)
            return int(height), int(width)
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED) if data else None
    except _PROBLEMS as error:
        problem = f"damaged or truncated image ({_line(error)})"
        raise DataError(error_line("", problem=problem)) from error
    if pixels is None:
        problem = "not an image that OpenCV can decode" if data else "the image is empty"
        raise DataError(error_line("", problem=problem))
    return int(pixels.shape[0]), int(pixels.shape[1])


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _from_jpeg(data: bytes, recipe: Recipe) -> bytes:
    height, width, color, _ = simplejpeg.decode_jpeg_header(data)
    turn = _orientation(data) if recipe.color != "unchanged" and _has_exif(data) else 1
    is_small = not recipe.short_edge or min(height, width) <= recipe.short_edge
    if recipe.keep_bytes == "small" and turn == 1 and is_small and color in {"YCbCr", "Gray"}:
        check(data)
        return data
    found, size = decode(data, recipe), size_of(height, width, recipe)
    if recipe.center_crop:  # rotation moves the center of an odd length
        return encode_pixels(resize(_rotated(found, turn), size, recipe), recipe)
    return encode_pixels(_rotated(resize(found, size, recipe), turn), recipe)


def decode(data: bytes, recipe: Recipe) -> Any:
    """Decode a JPEG to uint8 pixels (H, W, 3 or 1), BGR or gray.

    Large images may be scaled down by 2, 4 or 8.
    """
    height, width, color, _ = simplejpeg.decode_jpeg_header(data)
    # The decoder's scales of 1/2, 1/4, 1/8 are box filters; its others are slow and blurred.
    left = min(height, width) / recipe.short_edge if recipe.short_edge else 0.0
    halves = 1
    while halves < 8 and left / (2 * halves) >= _BOX_FROM:
        halves *= 2
    least = {"min_height": -(-height // halves), "min_width": -(-width // halves)}
    grey = recipe.color == "grey" or (recipe.color == "unchanged" and color == "Gray")
    wanted = "GRAY" if grey and color in {"YCbCr", "Gray"} else "BGR"
    pixels = simplejpeg.decode_jpeg(data, colorspace=wanted, strict=True, **least)
    if grey and wanted == "BGR":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
    return pixels


def _has_exif(data: bytes) -> bool:
    """Return whether a JPEG has an EXIF segment before its scan."""
    at = 2
    while len(data) > at + 10 and data[at] == _MARKER and data[at + 1] != _START_OF_SCAN:
        if data[at + 1] == _MARKER:  # a fill byte
            at += 1
            continue
        if data[at + 1] == _APP1 and data[at + 4 : at + 10] == b"Exif\0\0":
            return True
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def _orientation(data: bytes) -> int:
    found = Image.open(io.BytesIO(data)).getexif().get(_ORIENTATION, 1)
    return found if found in _FLIPS else 1


def _rotated(pixels: Any, orientation: int) -> Any:
    if orientation == 1:
        return pixels
    if orientation >= 5:
        pixels = cv2.transpose(pixels)
    flip = _FLIPS[orientation]
    return pixels if flip is None else cv2.flip(pixels, flip)


def size_of(height: int, width: int, recipe: Recipe) -> tuple[int, int]:
    """Return the width and height after resizing, rounded down as upstream does."""
    if recipe.center_crop:
        height = width = min(height, width)
    edge, short = recipe.short_edge, min(height, width)
    if not edge or (short < edge and recipe.smaller == "keep"):
        return width, height
    size = (width * edge // short, height * edge // short)
    if recipe.encoding == "jpg" and max(size) > _LONGEST_EDGE:
        problem = (
            f"{width}x{height} would become {size[0]}x{size[1]}; a JPEG has at most "
            f"{_LONGEST_EDGE} pixels per edge"
        )
        raise DataError(error_line("", problem=problem))
    return size


def resize(pixels: Any, size: tuple[int, int], recipe: Recipe) -> Any:
    """Resize pixels to (width, height), after the center crop if the recipe has one."""
    if recipe.center_crop:
        edge = min(pixels.shape[:2])
        top, left = (pixels.shape[0] - edge) // 2, (pixels.shape[1] - edge) // 2
        pixels = pixels[top : top + edge, left : left + edge]
    height, width = pixels.shape[:2]
    if size == (width, height):
        return pixels
    if min(height, width) / min(size) < _BOX_FROM:
        return cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
    # Close to INTER_AREA in a third of its time, because that is fast only for factors of 2.
    twice = (2 * size[0], 2 * size[1])
    return cv2.resize(cv2.resize(pixels, twice), size, interpolation=cv2.INTER_AREA)


def encode_pixels(pixels: Any, recipe: Recipe) -> bytes:
    """Encode pixels in the recipe's format."""
    if pixels.ndim == 2:
        pixels = pixels[:, :, np.newaxis]
    plain = pixels.dtype == np.uint8 and pixels.shape[2] in {1, 3}
    if recipe.encoding == "jpg" and plain:
        color = "BGR" if pixels.shape[2] == 3 else "GRAY"
        jpeg: bytes = simplejpeg.encode_jpeg(
            np.ascontiguousarray(pixels),
            quality=recipe.quality,
            colorspace=color,
            colorsubsampling="420" if color == "BGR" else "Gray",
        )
        return jpeg
    suffix, options = {
        "jpg": (".jpg", [cv2.IMWRITE_JPEG_QUALITY, recipe.quality]),
        "png": (".png", [cv2.IMWRITE_PNG_COMPRESSION, min(recipe.quality, 9)]),
        "raw": (".bmp", []),
    }[recipe.encoding]
    if pixels.dtype != np.uint8 and suffix != ".png":
        pixels = cv2.convertScaleAbs(pixels, alpha=1 / 257)
    return cv2.imencode(suffix, pixels, options)[1].tobytes()
