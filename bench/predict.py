"""Classify images with a checkpoint, and print the most probable classes.

python -m bench.predict photo.jpg other.png --model-prefix PREFIX
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:
    print(
        "error: bench/predict.py: cannot run as a script. "
        "Run 'python -m bench.predict ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)
if __name__ == "__main__":
    from bench.errors import check_python

    check_python("bench.predict")

from bench.data import input_format
from bench.data.input_format import InputFormat
from bench.errors import SpecError, error_line
from bench.training.options import Options, empty, parse
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.terminal import echo, echo_error, install_filter

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The most probable classes of an image, each with its probability."""

    image: str
    classes: tuple[tuple[str, float], ...]


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m bench.predict`."""
    made = empty("predict", "Classify images with a checkpoint.")
    add = made.add_argument
    add("images", nargs="+", metavar="IMAGE", help="Image files")
    text = "Prefix of the checkpoint's files"
    add("--model-prefix", "--model", required=True, metavar="PREFIX", help=text)
    add("--load-epoch", type=int, metavar="N", help="Epoch of the checkpoint [the newest]")
    add("--gpus", default="", metavar="N", help="Index of the GPU [CPU]")
    add_input_options(made)
    return made


def add_input_options(made: argparse.ArgumentParser) -> None:
    """Add the options for the input of the network."""
    add = made.add_argument
    text = "Channels, height and width, unless the training recorded them"
    add("--image-shape", default="3,224,224", metavar="C,H,W", help=text)
    text = "Mean subtracted from each channel, unless recorded"
    add("--rgb-mean", default="0,0,0", metavar="R,G,B", help=text)
    text = "Standard deviation that divides each channel, unless recorded"
    add("--rgb-std", default="1,1,1", metavar="R,G,B", help=text)


def predictions(argv: Sequence[str]) -> Iterator[Prediction | SpecError]:
    """Yield a prediction, or the error, of each image.

    Raises SpecError if the checkpoint cannot be read.
    """
    typed = vars(parser().parse_args(argv))
    prefix = typed["model_prefix"]
    input_format.fill_from_checkpoint(typed, argv, prefix)
    if note := input_format.assumption_note(typed, argv, prefix):
        echo(note, err=True)
    read = [f"--{name.replace('_', '-')}={typed[name]}" for name in ("image_shape", "gpus")]
    read += [f"--rgb-mean={typed['rgb_mean']}", f"--rgb-std={typed['rgb_std']}"]
    options = parse([*read, "--data-train=.", "--batch-size=1", "--test-io=1", "--network=tiny"])
    found = input_format.read(prefix)
    recipe = found.recipe if found else None
    if recipe is None:
        recipe = Recipe(short_edge=max(options.image_shape[1:]))
    # Load MXNet only after the options are validated.
    from bench.training.mxnet.checkpoint import predictor  # noqa: PLC0415
    from bench.training.mxnet.worker import device_contexts  # noqa: PLC0415

    epoch = typed["load_epoch"]
    epoch = input_format.newest_epoch(prefix) if epoch is None else epoch
    run = predictor(prefix, epoch, (1, *options.image_shape), device_contexts(options)[0])
    for image in typed["images"]:
        try:
            yield _prediction(image, _pixels(image, recipe, options), run, found)
        except SpecError as error:
            yield error


def _pixels(image: str, recipe: Recipe, options: Options) -> Any:
    """Read an image as packing and validation do."""
    import numpy as np  # noqa: PLC0415 - not needed for --help

    from bench.data.transforms import fill  # noqa: PLC0415
    from im2rec_tools.formats.images import encode  # noqa: PLC0415

    out = np.empty(options.image_shape, np.float32)
    try:
        fill(encode(Path(image).read_bytes(), recipe), options, out, image)
    except IsADirectoryError as error:
        fix = f"Name its images, such as {image.rstrip('/')}/*.jpg"
        raise SpecError(error_line(image, expected="an image", got="a folder", fix=fix)) from error
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise SpecError(error_line(image, problem=problem, fix="Check the path")) from error
    except DataError as error:
        fix = "Leave it out, or convert it to JPEG or PNG"
        raise SpecError(error_line(image, problem=str(error), fix=fix)) from error
    return out[None]


def _prediction(
    image: str, pixels: Any, run: Callable[[Any], Any], found: InputFormat | None
) -> Prediction:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415
    from bench.training.validation import probabilities  # noqa: PLC0415

    (row,) = probabilities(run(mx.nd.from_numpy(pixels, zero_copy=False)))
    labels = found.labels if found else ()
    best = sorted(range(len(row)), key=lambda label: -row[label])[:_SHOWN]
    names = {label: labels[label] if label < len(labels) else str(label) for label in best}
    return Prediction(image=image, classes=tuple((names[one], float(row[one])) for one in best))


def table(found: Sequence[Prediction]) -> list[str]:
    """Return the lines of a table with one row per class of each image."""
    rows = [("image", "class", "probability")]
    for one in found:
        for place, (name, probability) in enumerate(one.classes):
            rows.append(("" if place else one.image, name, f"{probability:.4f}"))
    first, second, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    return [f"{image:{first}}  {name:{second}}  {value:>11}" for image, name, value in rows]


def main() -> None:
    """Print a table; exit 2 for wrong options, model or images."""
    install_filter()
    found: list[Prediction] = []
    wrong: list[SpecError] = []
    try:
        for one in predictions(sys.argv[1:]):
            if isinstance(one, SpecError):
                wrong.append(one)
            else:
                found.append(one)
    except (SpecError, ValueError, FloatingPointError) as error:
        echo_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        sys.exit(130)
    if found:
        echo(*table(found))
    for bad in wrong:
        echo_error(bad)
    sys.exit(2 if wrong else 0)


if __name__ == "__main__":
    main()
