"""Augmentation: random changes of training images, as in MXNet's reader."""

import math
from typing import Any

import cv2
import numpy as np

from bench.data.augmentation_options import AugmentationOptions

# Principal axes of ImageNet's colors (red, green, blue), each times its standard deviation:
# Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural
# networks", 2012, section 4.1, with MXNet's values.
_COLOUR_AXES = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
) * [55.46, 4.794, 1.148]
_HUES = 180
_TRIES = 10


def augment(pixels: Any, asked: AugmentationOptions, size: tuple[int, int], draw: Any) -> Any:
    """Augment an image of any size (uint8, RGB or gray) to (height, width) `size`.

    `draw` is a NumPy Generator. An image that is too small for its crop is enlarged first.
    """
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]  # OpenCV's layout of gray images
    pixels = _warp(pixels, asked, draw)
    if asked.pad_size:
        edge, fill = (asked.pad_size,) * 4, (asked.fill_value,) * 3
        pixels = cv2.copyMakeBorder(pixels, *edge, cv2.BORDER_CONSTANT, value=fill)
    pixels = _crop(pixels, asked, size, draw)
    pixels = _jitter(pixels, asked, draw)
    pixels = _shift(pixels, asked, draw)
    if asked.pca_noise:
        pixels = _add(pixels, _COLOUR_AXES @ draw.normal(0, asked.pca_noise, 3))
    if asked.random_mirror and draw.random() < 0.5:
        pixels = cv2.flip(pixels, 1)
    return pixels


def _warp(pixels: Any, asked: AugmentationOptions, draw: Any) -> Any:
    """Shear, rotate, scale and stretch about the center; fill the rest."""
    aspects = (1.0, 1.0) if asked.random_resized_crop else asked.aspects
    scales = asked.min_random_scale, asked.max_random_scale
    limits = asked.max_random_rotate_angle, asked.max_random_shear_ratio
    if not any(limits) and (*aspects, *scales) == (1, 1, 1, 1):
        return pixels
    shear = draw.uniform(-1, 1) * asked.max_random_shear_ratio
    turn = math.radians(
        draw.integers(-asked.max_random_rotate_angle, asked.max_random_rotate_angle + 1)
    )
    scale, aspect = draw.uniform(*scales), draw.uniform(*aspects)
    tall = 2 * scale / (1 + aspect)
    wide = aspect * tall
    cos, sin = math.cos(turn), math.sin(turn)
    linear = np.array(
        [[tall * cos - shear * sin * wide, tall * sin + shear * cos * wide],
         [-sin * wide, cos * wide]]
    )  # fmt: skip
    height, width = pixels.shape[:2]
    new = scale * width, scale * height
    shift = (new - linear @ (width, height)) / 2
    return cv2.warpAffine(
        pixels,
        np.column_stack([linear, shift]),
        (max(1, int(new[0])), max(1, int(new[1]))),
        borderValue=(asked.fill_value,) * 3,
    )


def _crop(pixels: Any, asked: AugmentationOptions, size: tuple[int, int], draw: Any) -> Any:
    part = _part(pixels.shape[:2], asked, draw)
    resized = part is not None
    if part is None:
        part = _square(asked, draw) or size
        pixels = _enlarge(pixels, *part)
    room = pixels.shape[0] - part[0], pixels.shape[1] - part[1]
    if asked.random_crop or resized:
        top, left = (int(draw.integers(0, most + 1)) for most in room)
    else:
        top, left = room[0] // 2, room[1] // 2
    pixels = pixels[top : top + part[0], left : left + part[1]]
    return pixels if part == size else cv2.resize(pixels, size[::-1])


def _square(asked: AugmentationOptions, draw: Any) -> tuple[int, int] | None:
    least, most = asked.crop_sizes
    if most == -1:
        return None
    side = int(draw.integers(least, most + 1))
    return side, side


def _part(shape: tuple[int, int], asked: AugmentationOptions, draw: Any) -> tuple[int, int] | None:
    """Draw a crop size by area and aspect.

    None if not requested or ten draws do not fit.
    """
    areas = asked.min_random_area, asked.max_random_area
    if not asked.random_resized_crop or (*areas, *asked.aspects) == (1, 1, 1, 1):
        return None
    for _ in range(_TRIES):
        area = shape[0] * shape[1] * draw.uniform(*areas)
        aspect = draw.uniform(*asked.aspects)
        if draw.random() < 0.5:
            aspect = 1 / aspect
        height, width = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if 1 <= height <= shape[0] and 1 <= width <= shape[1]:
            return height, width
    return None


def _enlarge(pixels: Any, height: int, width: int) -> Any:
    """Enlarge a smaller image, keeping its aspect ratio."""
    more = max(height / pixels.shape[0], width / pixels.shape[1])
    if more <= 1:
        return pixels
    new = max(width, round(pixels.shape[1] * more)), max(height, round(pixels.shape[0] * more))
    return cv2.resize(pixels, new)


def _jitter(pixels: Any, asked: AugmentationOptions, draw: Any) -> Any:
    """Scale brightness, contrast and saturation by random factors, in random order."""
    limits = asked.brightness, asked.contrast, asked.saturation
    if not any(limits):
        return pixels
    factors = 1 + draw.uniform(-1, 1, 3) * limits
    for which in draw.permutation(3):
        factor = float(factors[which])
        if factor == 1:
            continue
        grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY) if pixels.ndim == 3 else pixels
        if which == 2:
            grey = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
            pixels = cv2.addWeighted(pixels, factor, grey, 1 - factor, 0)
        else:
            middle = cv2.mean(grey)[0] if which == 1 else 0.0
            pixels = cv2.addWeighted(pixels, factor, pixels, 0, (1 - factor) * middle)
    return pixels


def _shift(pixels: Any, asked: AugmentationOptions, draw: Any) -> Any:
    """Shift hue, lightness and saturation at random; large shifts are rare."""
    limits = asked.max_random_h, asked.max_random_l, asked.max_random_s
    if not any(limits):
        return pixels
    moves = ((draw.random((2, 3)).T @ (1, 4)) / 5 * 2 - 1) * limits
    moved = _add(cv2.cvtColor(pixels, cv2.COLOR_RGB2HLS), np.trunc(moves))
    moved[..., 0] = np.minimum(moved[..., 0], _HUES)
    return cv2.cvtColor(moved, cv2.COLOR_HLS2RGB)


def _add(pixels: Any, amounts: Any) -> Any:
    """Add an amount to each channel, clipped to 0 to 255."""
    return cv2.add(pixels, np.array([*amounts, 0.0]))
