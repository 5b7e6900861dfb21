"""How training images are changed at random, by upstream's option names and defaults."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.errors import SpecError


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of upstream: its default, what MXNet's reader calls it, and what it does."""

    default: float | None
    setting: str
    help: str


OPTIONS = {
    "random_crop": Option(default=0, setting="rand_crop", help="1: crop anywhere, not the centre"),
    "random_mirror": Option(default=0, setting="rand_mirror", help="1: mirror every second image"),
    "max_random_h": Option(default=0, setting="random_h", help="change of hue, of 180"),
    "max_random_s": Option(default=0, setting="random_s", help="change of saturation, of 255"),
    "max_random_l": Option(default=0, setting="random_l", help="change of lightness, of 255"),
    "min_random_aspect_ratio": Option(
        default=None, setting="min_aspect_ratio", help="smallest aspect ratio of a crop"
    ),
    "max_random_aspect_ratio": Option(
        default=0.0, setting="max_aspect_ratio", help="largest, or the change where there is no min"
    ),
    "max_random_rotate_angle": Option(default=0, setting="max_rotate_angle", help="degrees"),
    "max_random_shear_ratio": Option(default=0.0, setting="max_shear_ratio", help="shear"),
    "max_random_scale": Option(default=1.0, setting="max_random_scale", help="largest scale"),
    "min_random_scale": Option(default=1.0, setting="min_random_scale", help="smallest scale"),
    "max_random_area": Option(
        default=1.0, setting="max_random_area", help="largest part of the image a crop takes"
    ),
    "min_random_area": Option(default=1.0, setting="min_random_area", help="smallest part"),
    "min_crop_size": Option(default=-1, setting="min_crop_size", help="of crops, then resized"),
    "max_crop_size": Option(default=-1, setting="max_crop_size", help="of crops, then resized"),
    "brightness": Option(default=0.0, setting="brightness", help="change of brightness, of 1"),
    "contrast": Option(default=0.0, setting="contrast", help="change of contrast, of 1"),
    "saturation": Option(default=0.0, setting="saturation", help="change of saturation, of 1"),
    "pca_noise": Option(default=0.0, setting="pca_noise", help="noise along the colours' axes"),
    "random_resized_crop": Option(
        default=0, setting="random_resized_crop", help="1: crop by area and aspect, then resize"
    ),
    "pad_size": Option(default=0, setting="pad", help="pixels put around each image first"),
    "fill_value": Option(default=127, setting="fill_value", help="colour of what is put around"),
}

_SWITCHES = ("random_crop", "random_mirror", "random_resized_crop")
# What upstream's --use-imagenet-data-augmentation means to set, and sets too late to matter.
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


def flag(name: str) -> str:
    """An option as it is typed: 'max_random_h' is --max-random-h."""
    return "--" + name.replace("_", "-")


def add_options(made: argparse.ArgumentParser) -> None:
    """The options of augmentation, into a parser."""
    group = made.add_argument_group("augmentation (of training images only)")
    for name, option in OPTIONS.items():
        kind = int if isinstance(option.default, int) else float
        choices = (0, 1) if name in _SWITCHES else None
        group.add_argument(
            flag(name), type=kind, default=option.default, choices=choices, help=option.help
        )
    group.add_argument(
        "--use-imagenet-data-augmentation",
        type=int,
        choices=(0, 1),
        default=0,
        help="1: the usual ones of ImageNet, and its --rgb-std, where not given themselves",
    )


def settings(given: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """What MXNet's reader is told; nothing where no image is changed. SpecError where it cannot be.

    Its own defaults are not upstream's, so that all are told or none.
    """
    _check(given)
    if all(given[name] == option.default for name, option in OPTIONS.items()):
        return ()
    return tuple(
        (option.setting, given[name]) for name, option in OPTIONS.items() if given[name] is not None
    )


def _check(given: Mapping[str, Any]) -> None:
    if given["random_resized_crop"] and given["random_crop"]:
        raise SpecError(
            "--random-resized-crop 1 crops at random already, and MXNet takes no --random-crop 1 "
            "beside it; give one of them"
        )
    for less, more in (
        ("min_random_scale", "max_random_scale"),
        ("min_random_area", "max_random_area"),
        ("min_crop_size", "max_crop_size"),
    ):
        if given[less] > given[more]:
            raise SpecError(f"{flag(less)} {given[less]} is above {flag(more)} {given[more]}")
    least, most = given["min_random_aspect_ratio"], given["max_random_aspect_ratio"]
    if given["random_resized_crop"] and most and least is None:
        raise SpecError(
            "--random-resized-crop 1: --max-random-aspect-ratio needs --min-random-aspect-ratio "
            "too; expected numbers above 0, such as 1.333 and 0.75"
        )
    if least is not None and not 0 < least <= most:
        raise SpecError(
            f"--min-random-aspect-ratio: expected above 0 and at most --max-random-aspect-ratio, "
            f"got {least} and {most}"
        )
    for name, option in OPTIONS.items():
        value = given[name]
        if value is not None and not -1e9 < value < 1e9:
            raise SpecError(f"{flag(name)}: expected a number, got {value}")
        if option.default is not None and option.default >= 0 and value < 0:
            raise SpecError(f"{flag(name)}: expected 0 or more, got {value}")
