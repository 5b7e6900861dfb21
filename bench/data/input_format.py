"""The input of a model: image shape, normalization, class names, packing recipe.

Shards give shape and classes to training. Training writes them to PREFIX-mxscale.json beside its
checkpoints, where scoring, prediction and fine-tuning read them.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.data.shards import shards
from bench.errors import SpecError, brief, error_line, quoted
from bench.networks.catalog import describe
from bench.settings.parts import PART_FIELDS
from im2rec_tools.errors import DataError
from im2rec_tools.files import write_text
from im2rec_tools.formats.lists import read_labels
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.packing import manifest
from im2rec_tools.terminal import echo

if TYPE_CHECKING:
    from bench.training.options import Options

SCHEMA = 1  # first
# The last layer of a fine-tuned network has names with this prefix.
FINE_TUNED = "fine_tuned_"
_NORMALIZATION = ("image_shape", "rgb_mean", "rgb_std")
_EPOCH = re.compile(r"-(\d{4,})\.params")
_MOST_CLASSES = 10**7
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, kw_only=True)
class InputFormat:
    """Input of a checkpoint's network and its classes, by label.

    network  its name, without the depth in files of earlier versions; '' if unknown
    labels   class names; empty if unknown
    recipe   how the images of its shards were resized; None if unknown
    """

    network: str
    classes: int
    image_shape: tuple[int, int, int]
    rgb_mean: tuple[float, float, float]
    rgb_std: tuple[float, float, float]
    labels: tuple[str, ...] = ()
    recipe: Recipe | None = None


def path_of(prefix: str) -> Path:
    """Return the path of the description beside the checkpoints of a prefix."""
    return Path(f"{prefix}-mxscale.json")


def class_names(data: str) -> tuple[str, ...]:
    """Return the class of each label of packed shards; () without a labels file.

    `fab data.prepare` writes labels.txt beside the folders of shards. Raises SpecError if the file
    is invalid.
    """
    path = _labels_path(data)
    if path is None:
        return ()
    try:
        found = {label: name for name, label in read_labels(path).items()}
    except DataError as error:
        raise SpecError(str(error)) from error
    most = max(found, default=-1) + 1
    labels = range(most if most <= _MOST_CLASSES else 0)
    return tuple(found.get(label, str(label)) for label in labels)


def check_classes(option: str, data: str, wanted: Sequence[str], source: object, fix: str) -> None:
    """Raise SpecError if a label of the shards has another class name than `wanted`.

    Labels without a name, in the shards or in `source` (a file), are not compared.
    """
    try:
        found = class_names(data) if wanted and data else ()
    except SpecError:
        return  # reported when the shards are read
    for label, (theirs, ours) in enumerate(zip(wanted, found, strict=False)):
        if theirs != ours and str(label) not in {theirs, ours}:
            raise SpecError(
                error_line(
                    option,
                    expected=f"class {quoted(theirs)} for label {label}, as in {source}",
                    got=f"{quoted(ours)} in {_labels_path(data)}",
                    fix=fix,
                )
            )


def recipe_note(option: str, data: str, wanted: Recipe | None, source: object) -> str:
    """Return a note if the images have another size than `wanted`, else ''."""
    try:
        found = packing_recipe(data) if wanted and data else None
    except SpecError:
        return ""  # reported when the shards are read
    if not (wanted and found) or wanted.short_edge == found.short_edge:
        return ""
    return (
        f"note: {option}: {data} has images with a short edge of {found.short_edge}, {source} has "
        f"{wanted.short_edge}; the accuracy of crops differs. Pack both with the same --short-edge"
    )


def check_validation(options: "Options") -> None:
    """Raise SpecError if validation and training shards have other classes."""
    if options.data_val and not (options.benchmark or options.bandwidth or options.test_io):
        source, names = labels_of(options.data_train)
        fix = "Give the validation shards of the same classes"
        check_classes("--data-val", options.data_val, names, source, fix)
        try:
            recipe = packing_recipe(options.data_train)
        except SpecError:
            return  # reported when the shards are read
        if note := recipe_note("--data-val", options.data_val, recipe, options.data_train):
            echo(note, err=True)


def labels_of(data: str) -> tuple[Path | None, tuple[str, ...]]:
    """Return the labels file of shards and its class names, if they have one."""
    try:
        return _labels_path(data), class_names(data)
    except SpecError:
        return None, ()  # reported when the shards are read


def _labels_path(data: str) -> Path | None:
    first = shards(data)[0]
    if not first.with_suffix(".json").is_file():
        return None  # other files may lie beside shards of other programs
    for folder in (first.parent, first.parent.parent):
        if (folder / "labels.txt").is_file():
            return folder / "labels.txt"
    return None


def packing_recipe(data: str) -> Recipe | None:
    """Return the recipe of the first shard of `data`; None without a valid manifest."""
    try:
        made = manifest.read(shards(data)[0])
    except DataError:
        return None
    return _recipe(made.recipe) if made else None


def _recipe(values: dict[str, Any]) -> Recipe | None:
    known = {one.name: type(getattr(Recipe(), one.name)) for one in fields(Recipe)}
    kept = {name: value for name, value in values.items() if type(value) is known.get(name)}
    return Recipe(**kept) if len(kept) == len(known) else None


def described(options: "Options") -> InputFormat:
    """Return the input of the network that these options train."""
    has_data = bool(options.data_train) and not options.benchmark
    before = read(options.pretrained) if options.pretrained else None
    own = describe(options.network, options.num_layers)
    return InputFormat(
        network=own if not options.pretrained else before.network if before else "",
        classes=options.num_classes,
        image_shape=options.image_shape,
        rgb_mean=options.rgb_mean,
        rgb_std=options.rgb_std,
        labels=class_names(options.data_train)[: options.num_classes] if has_data else (),
        recipe=packing_recipe(options.data_train) if has_data else None,
    )


def write(prefix: str, found: InputFormat) -> None:
    """Write the description beside the checkpoints of a prefix, atomically."""
    write_text(path_of(prefix), json.dumps({"schema": SCHEMA} | asdict(found), indent=1) + "\n")


def read(prefix: str) -> InputFormat | None:
    """Read the description beside the checkpoints of a prefix; None if there is none.

    Raises SpecError for an invalid one.
    """
    path = path_of(prefix)
    try:
        return _parsed(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (*_UNREADABLE, OSError) as error:
        got = f"an invalid file ({brief(str(error))})"
        fix = "Remove it, and give --image-shape, --rgb-mean and --rgb-std of the training"
        line = error_line(path, expected="the input of a checkpoint", got=got, fix=fix)
        raise SpecError(line) from error


def check_prefix(prefix: str, wanted: InputFormat) -> None:
    """Raise SpecError if checkpoints of another shape, mean or std have this prefix."""
    found = read(prefix)
    for name in _NORMALIZATION if found else ():
        theirs, ours = _text(getattr(found, name)), _text(getattr(wanted, name))
        if theirs != ours:
            raise SpecError(
                error_line(
                    path_of(prefix),
                    problem=f"belongs to checkpoints with --{name.replace('_', '-')} {theirs}, "
                    f"not {ours}",
                    fix="Give another --model-prefix",
                )
            )


def _parsed(values: dict[str, Any]) -> InputFormat:
    """Return the content of a description; raises one of _UNREADABLE if it is invalid."""
    shape, mean, std = (tuple(values[name]) for name in _NORMALIZATION)
    numbers = all(type(one) in {int, float} and abs(one) < 1e30 for one in (*mean, *std))
    whole = all(type(one) is int and 0 < one < 1 << 20 for one in shape)
    if not (numbers and whole and len(shape) == len(mean) == len(std) == 3 and 0 not in std):
        raise ValueError("expected three channels of numbers")
    if values["schema"] != SCHEMA:
        raise ValueError(f"schema {quoted(values['schema'])} instead of {SCHEMA}")
    return InputFormat(
        network=str(values["network"]),
        classes=int(values["classes"]),
        image_shape=shape,
        rgb_mean=mean,
        rgb_std=std,
        labels=tuple(map(str, values["labels"])),
        recipe=_recipe(values["recipe"]) if values["recipe"] else None,
    )


def is_fine_tuned(prefix: str) -> bool:
    """Return whether bench.fine_tune wrote the network of a prefix; False without one."""
    try:
        text = Path(f"{prefix}-symbol.json").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False  # reported when it is read
    return f'"{FINE_TUNED}weight"' in text


def assumption_note(typed: dict[str, Any], argv: Sequence[str], prefix: str) -> str:
    """Return a note on input that neither options nor checkpoint give; '' if none."""
    named = given_options(argv)
    flags = [(f"--{name.replace('_', '-')}", name) for name in _NORMALIZATION]
    used = ", ".join(f"{flag} {typed[name]}" for flag, name in flags if flag not in named)
    if not used or path_of(prefix).exists() or not Path(f"{prefix}-symbol.json").exists():
        return ""  # without a symbol there is no checkpoint at all
    mean: tuple[float, ...] = PART_FIELDS["rgb_mean"].default
    other = "--rgb-mean" not in named and _numbers(typed["rgb_mean"]) != mean
    usual = f" (the default of bench.train_imagenet is --rgb-mean {_text(mean)})" * other
    return f"note: {path_of(prefix)}: no such file; using {used}{usual}. Give those of the training"


def given_options(argv: Sequence[str]) -> set[str]:
    """Return the names of the options on a command line."""
    return {one.partition("=")[0] for one in argv if one.startswith("--")}


def fill_from_checkpoint(typed: dict[str, Any], argv: Sequence[str], prefix: str) -> list[str]:
    """Set shape, mean and std that were not given to those of a checkpoint.

    Returns the options that the checkpoint settles. Raises SpecError if a given one differs.
    """
    found, named = read(prefix), given_options(argv)
    flags = {f"--{name.replace('_', '-')}": name for name in _NORMALIZATION if found}
    for flag, name in flags.items():
        value = getattr(found, name)
        if flag not in named:
            typed[name] = ",".join(map(str, value))
        elif (given := _numbers(typed[name])) is not None and given != tuple(map(float, value)):
            raise SpecError(
                error_line(
                    flag,
                    expected=f"{_text(value)}, as in {path_of(prefix)}",
                    got=typed[name],
                    fix="Leave it out",
                )
            )
    return list(flags)


def _numbers(text: str) -> tuple[float, ...] | None:
    """Return three numbers; None for others, which parsing reports."""
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        return None
    return numbers if len(numbers) == 3 else None


def _text(numbers: Iterable[float]) -> str:
    return ",".join(f"{one:g}" for one in numbers)


def fill_from_shards(
    typed: dict[str, Any], argv: Sequence[str], usual: tuple[int, int, int]
) -> None:
    """Set classes and image shape that were not given to those of the training shards.

    `usual` is the image shape to use if the images are large enough. Raises SpecError if a given
    number of classes is too small.
    """
    if typed["benchmark"] or typed["bandwidth"] or not typed["data_train"]:
        return
    data, named = typed["data_train"], given_options(argv)
    try:
        shards(data)
    except SpecError:
        return  # reported when they are read
    known = len(class_names(data))
    if known and "--num-classes" not in named:
        typed["num_classes"] = known
    elif not (known or "--num-classes" in named or typed["test_io"]) and packing_recipe(data):
        echo(
            f"note: {data} has no labels.txt; training {typed['num_classes']} classes. Give the "
            "number of classes by --num-classes",
            err=True,
        )
    elif typed["num_classes"] < known and not typed["test_io"]:
        raise SpecError(
            error_line(
                "--num-classes",
                expected=f"{known} or more, the classes of {_labels_path(data)}",
                got=typed["num_classes"],
                fix=f"Give {known}",
            )
        )
    if "--image-shape" not in named and (recipe := packing_recipe(data)):
        typed["image_shape"] = _text(_fitting(usual, recipe))


def check_image_shape(options: "Options") -> None:
    """Raise SpecError if every training image is too small for the input."""
    if options.benchmark or options.bandwidth:
        return
    from bench.data.augmentation import fewest_pixels  # noqa: PLC0415 - loads OpenCV

    try:
        recipe = packing_recipe(options.data_train)
    except SpecError:
        return  # reported when the shards are read
    edge = recipe.short_edge if recipe and recipe.keep_bytes != "all" else 0
    height, width = fewest_pixels(options.augmentation, options.image_shape[1:])
    if recipe and edge and min(height, width) > edge:
        plain = (height, width) == options.image_shape[1:]
        smaller = (
            f"Give {_text(_fitting(options.image_shape, recipe))}, or pack" if plain else "Pack"
        )
        raise SpecError(
            error_line(
                "--image-shape",
                expected=f"at most {edge} pixels, the short edge of the images in "
                f"{options.data_train}",
                got=f"{width} x {height}",
                fix=f"{smaller} with --short-edge {min(height, width)}",
            )
        )


def _fitting(usual: tuple[int, int, int], recipe: Recipe) -> tuple[int, int, int]:
    """Return the usual image shape, or a square of the short edge if that is smaller."""
    channels, height, width = usual
    edge = recipe.short_edge if recipe.keep_bytes != "all" else 0
    if edge and edge < max(height, width):
        height = width = edge
    return 1 if recipe.color == "grey" else channels, height, width


def newest_epoch(prefix: str) -> int:
    """Return the newest epoch of a prefix's checkpoints; 0 if there is none."""
    path = Path(prefix)
    found = [_EPOCH.fullmatch(one.name[len(path.name) :]) for one in _checkpoints(path)]
    return max((int(one[1]) for one in found if one), default=0)


def _checkpoints(prefix: Path) -> list[Path]:
    try:
        return [one for one in prefix.parent.iterdir() if one.name.startswith(f"{prefix.name}-")]
    except OSError:
        return []  # reported when the network is read
