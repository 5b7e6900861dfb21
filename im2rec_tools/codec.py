"""An image file's bytes to the JPEG that goes into a record."""

from dataclasses import dataclass
from typing import Any, Literal

import cv2
import numpy as np
import simplejpeg

from im2rec_tools.errors import DataError

_JPEG = b"\xff\xd8\xff"
# Scaling inside the JPEG decoder is sharp enough only where much is left to scale down.
_SCALED_DECODING_FROM = 2.8
_AREA_FROM = 2.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to re-encode: short edge in pixels, JPEG quality, what becomes of smaller images."""

    short_edge: int = 256
    quality: int = 90
    smaller: Literal["keep", "enlarge"] = "keep"


def encode(data: bytes, recipe: Recipe) -> bytes:
    """The image as a JPEG with the recipe's short edge and quality.

    Raises DataError where the bytes are no whole image.
    """
    try:
        pixels = _resized(_decoded(data, recipe), recipe)
        color = "GRAY" if pixels.shape[2] == 1 else "BGR"
        encoded: bytes = simplejpeg.encode_jpeg(
            np.ascontiguousarray(pixels),
            quality=recipe.quality,
            colorspace=color,
            colorsubsampling="420" if color == "BGR" else "Gray",
        )
    except (ValueError, MemoryError, cv2.error) as error:
        raise DataError(f"cannot be decoded or encoded: {str(error).strip()}") from error
    return encoded


def check(data: bytes) -> tuple[int, int]:
    """Height and width of a JPEG that decodes without a fault; DataError for any other bytes."""
    try:
        pixels = simplejpeg.decode_jpeg(data, strict=True)
    except ValueError as error:
        raise DataError(f"not a whole JPEG image: {error}") from error
    return int(pixels.shape[0]), int(pixels.shape[1])


def _decoded(data: bytes, recipe: Recipe) -> Any:
    """Pixels (H, W, 3 or 1), BGR, uint8; larger JPEGs may come scaled down towards the recipe."""
    # OpenCV turns a photograph upright by its EXIF entry, which simplejpeg passes over.
    if not data.startswith(_JPEG) or b"Exif\0\0" in data[:65536]:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
        if pixels is None:
            raise DataError("not an image that OpenCV can decode" if data else "the file is empty")
        return pixels
    height, width, color, _ = simplejpeg.decode_jpeg_header(data)
    least: dict[str, int] = {}
    if min(height, width) >= recipe.short_edge * _SCALED_DECODING_FROM:
        least = {"min_height": recipe.short_edge, "min_width": recipe.short_edge}
    wanted = "GRAY" if color == "Gray" else "BGR"
    return simplejpeg.decode_jpeg(data, colorspace=wanted, strict=True, **least)


def _resized(pixels: Any, recipe: Recipe) -> Any:
    height, width = pixels.shape[:2]
    ratio = min(height, width) / recipe.short_edge
    if ratio == 1 or (ratio < 1 and recipe.smaller == "keep"):
        return pixels
    size = (
        max(recipe.short_edge, round(width / ratio)),
        max(recipe.short_edge, round(height / ratio)),
    )
    method = cv2.INTER_AREA if ratio >= _AREA_FROM else cv2.INTER_LINEAR
    resized = cv2.resize(pixels, size, interpolation=method)
    return resized if resized.ndim == 3 else resized[:, :, np.newaxis]
