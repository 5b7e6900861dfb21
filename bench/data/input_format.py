"""The input of a model: image shape, normalization, class names, packing recipe.

Shards give shape and classes to training. Training writes them to PREFIX-mxscale.json beside its
checkpoints, where scoring, prediction and fine-tuning read them.
"""

import json
import re
import tempfile
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

if TYPE_CHECKING:
    from bench.training.options import Options

SCHEMA = 1  # first
# The last layer of a fine-tuned network has names with this prefix.
FINE_TUNED = "fine_tuned_"
_NORMALIZATION = ("image_shape", "rgb_mean", "rgb_std")
_EPOCH = re.compile(r"-(\d{4,})\.(?:params|pt)")
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


def smallest_image(data: str) -> tuple[int, int] | None:
    """Return the least height and width of the images; None if a manifest lacks them."""
    found = []
    for path in shards(data):
        try:
            made = manifest.read(path)
        except DataError:
            return None
        if made is None or made.smallest is None:
            return None
        found.append(made.smallest)
    heights, widths = zip(*found, strict=True)
    return min(heights), min(widths)


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
        theirs, ours = numbers_text(getattr(found, name)), numbers_text(getattr(wanted, name))
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
    usual = f" (the default of bench.train_imagenet is --rgb-mean {numbers_text(mean)})" * other
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
                    expected=f"{numbers_text(value)}, as in {path_of(prefix)}",
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


def numbers_text(numbers: Iterable[float]) -> str:
    """Return '3,224,224'."""
    return ",".join(f"{one:g}" for one in numbers)


def make_folder(prefix: str) -> None:
    """Create the folder of checkpoints; SpecError if it is not writable."""
    target = Path(prefix)
    if not target.name:
        raise SpecError(error_line("--model-prefix", expected="FOLDER/NAME", got=f"{prefix!r}"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as folder:
            (Path(folder) / f"{target.name}-symbol.json").touch()
    except OSError as error:
        raise SpecError(
            error_line(
                f"--model-prefix {prefix}",
                problem=f"cannot be written ({error.strerror}: {error.filename})",
            )
        ) from error


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
