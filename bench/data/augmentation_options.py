"""Augmentation options, by upstream's names and defaults."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from bench.errors import SpecError, error_line

_SWITCHES = ("random_crop", "random_mirror", "random_resized_crop")
# The values of --use-imagenet-data-augmentation. Upstream applies them too late to take effect.
IMAGENET: dict[str, Any] = {
    "rgb_mean": "123.68,116.779,103.939",
    "rgb_std": "58.393,57.12,57.375",
    "random_resized_crop": 1,
    "random_mirror": 1,
    "min_random_area": 0.08,
    "max_random_aspect_ratio": 4 / 3,
    "min_random_aspect_ratio": 3 / 4,
    "brightness": 0.4,
    "contrast": 0.4,
    "saturation": 0.4,
    "pca_noise": 0.1,
}


def _option(default: Any, metavar: str, text: str) -> Any:
    return field(default=default, metadata={"metavar": metavar, "help": text})


@dataclass(frozen=True, kw_only=True)
class AugmentationOptions:
    """Limits of the random changes to training images; the defaults change nothing."""

    random_crop: int = _option(0, "", "Crop at a random place instead of the center")
    random_mirror: int = _option(0, "", "Mirror half of the images")
    max_random_h: int = _option(0, "N", "Maximum change of hue; 180 is the full range")
    max_random_s: int = _option(0, "N", "Maximum change of saturation; 255 is the full range")
    max_random_l: int = _option(0, "N", "Maximum change of lightness; 255 is the full range")
    min_random_aspect_ratio: float | None = _option(
        None, "RATIO", "Minimum aspect ratio of a crop [from the maximum]"
    )
    max_random_aspect_ratio: float = _option(
        0.0, "RATIO", "Maximum aspect ratio of a crop; without a minimum, the largest change from 1"
    )
    max_random_rotate_angle: int = _option(0, "DEGREES", "Maximum rotation")
    max_random_shear_ratio: float = _option(0.0, "RATIO", "Maximum shear")
    max_random_scale: float = _option(1.0, "FACTOR", "Maximum scale")
    min_random_scale: float = _option(1.0, "FACTOR", "Minimum scale")
    max_random_area: float = _option(1.0, "FRACTION", "Maximum share of the image in a crop")
    min_random_area: float = _option(1.0, "FRACTION", "Minimum share of the image in a crop")
    min_crop_size: int = _option(
        -1, "PIXELS", "Minimum edge of square crops before resizing; -1 sets no limit"
    )
    max_crop_size: int = _option(
        -1, "PIXELS", "Maximum edge of square crops before resizing; -1 sets no limit"
    )
    brightness: float = _option(0.0, "FRACTION", "Maximum change of brightness")
    contrast: float = _option(0.0, "FRACTION", "Maximum change of contrast")
    saturation: float = _option(0.0, "FRACTION", "Maximum change of saturation")
    pca_noise: float = _option(0.0, "VALUE", "Noise along the principal axes of color")
    random_resized_crop: int = _option(0, "", "Crop by area and aspect ratio, then resize")
    pad_size: int = _option(0, "PIXELS", "Padding around each image before cropping")
    fill_value: int = _option(127, "N", "Gray value of the padding, 0 to 255")

    @property
    def aspects(self) -> tuple[float, float]:
        """The smallest and the largest ratio of width to height."""
        least, most = self.min_random_aspect_ratio, self.max_random_aspect_ratio
        return (1 - most, 1 + most) if least is None else (least, most)

    @property
    def crop_sizes(self) -> tuple[int, int]:
        """The smallest and the largest edge of square crops, in pixels; -1: no such crops.

        If only one is given, it is both.
        """
        least, most = self.min_crop_size, self.max_crop_size
        return (most if least == -1 else least, least if most == -1 else most)

    @property
    def color_changes(self) -> tuple[str, ...]:
        """Names of the requested changes that need color images."""
        names = ("max_random_h", "max_random_s", "max_random_l", "saturation", "pca_noise")
        return tuple(name for name in names if getattr(self, name))

    def fewest_pixels(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return the least (height, width) of a packed image that needs no enlarging.

        `size` is (height, width) of the network's input.
        """
        if self.random_resized_crop:
            return 1, 1
        height, width = (self.crop_sizes[1],) * 2 if self.crop_sizes[1] > 0 else size
        return height - 2 * self.pad_size, width - 2 * self.pad_size


NONE = AugmentationOptions()


def flag(name: str) -> str:
    """Return the option of a field: '--max-random-h' for 'max_random_h'."""
    return "--" + name.replace("_", "-")


def add_options(made: argparse.ArgumentParser) -> None:
    """Add the augmentation options to a parser."""
    group = made.add_argument_group("Augmentation (training images only)")
    for one in fields(AugmentationOptions):
        group.add_argument(
            flag(one.name),
            type=int if isinstance(one.default, int) else float,
            default=one.default,
            choices=(0, 1) if one.name in _SWITCHES else None,
            metavar=one.metadata["metavar"] or None,
            help=one.metadata["help"],
        )
    group.add_argument(
        "--use-imagenet-data-augmentation",
        type=int,
        choices=(0, 1),
        default=0,
        help="Use ImageNet's usual augmentation and --rgb-std for options not given",
    )


def augmentation_of(given: Mapping[str, Any]) -> AugmentationOptions:
    """Return the augmentation options among typed options; SpecError if invalid."""
    asked = AugmentationOptions(
        **{one.name: given[one.name] for one in fields(AugmentationOptions)}
    )
    _check_numbers(asked)
    _check_order(asked)
    _check_crops(asked)
    return asked


def _check_numbers(asked: AugmentationOptions) -> None:
    for one in fields(asked):
        value = getattr(asked, one.name)
        if value is not None and not -1e9 < value < 1e9:
            raise SpecError(error_line(flag(one.name), expected="a number", got=value))
        if value is not None and value < 0 and one.default != -1:
            raise SpecError(error_line(flag(one.name), expected="0 or more", got=value))
    if asked.fill_value > 255:
        raise SpecError(error_line("--fill-value", expected="0 to 255", got=asked.fill_value))


def _check_order(asked: AugmentationOptions) -> None:
    for name in ("random_scale", "random_area", "random_aspect_ratio"):
        least, most = getattr(asked, f"min_{name}"), getattr(asked, f"max_{name}")
        if least is not None and not 0 < least <= most:
            raise SpecError(
                error_line(
                    flag(f"min_{name}"),
                    expected=f"above 0 and at most {flag(f'max_{name}')}",
                    got=f"{least} and {most}",
                )
            )
    ratio = asked.max_random_aspect_ratio
    if asked.min_random_aspect_ratio is None and ratio >= 1:
        raise SpecError(
            error_line(
                "--max-random-aspect-ratio",
                expected="less than 1 without --min-random-aspect-ratio (a change from 1)",
                got=f"{ratio:g}",
                fix="Give both, such as 1.333 and 0.75",
            )
        )


def _check_crops(asked: AugmentationOptions) -> None:
    sizes = asked.crop_sizes
    if sizes != (-1, -1) and not 1 <= sizes[0] <= sizes[1]:
        raise SpecError(
            error_line(
                "--min-crop-size, --max-crop-size",
                expected="1 or more, and the first at most the second",
                got=f"{asked.min_crop_size} and {asked.max_crop_size}",
            )
        )
    beside = {
        "--random-crop": asked.random_crop,
        "--min-crop-size, --max-crop-size": sizes != (-1, -1),
        "--max-random-scale, --min-random-scale": (
            (asked.min_random_scale, asked.max_random_scale) != (1, 1)
        ),
    }
    for name, there in beside.items():
        if asked.random_resized_crop and there:
            raise SpecError(
                error_line(
                    "--random-resized-crop 1",
                    problem="chooses position and size of the crop itself, as in MXNet",
                    fix=f"Leave out {name}",
                )
            )
