"""Checks of settings against the shards that a job reads.

They compare classes, image shape and validation images. A worker checks its options; a sweep checks
its fields before it starts.
"""

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.data.augmentation_options import flag
from bench.data.input_format import (
    class_names,
    given_options,
    labels_of,
    numbers_text,
    packing_recipe,
    path_of,
    read,
    smallest_image,
)
from bench.data.shards import shards
from bench.errors import SpecError, error_line, quoted
from im2rec_tools.formats.recipe import Recipe, square_edge

if TYPE_CHECKING:
    from bench.training.options import Options


class Given(Enum):
    """How settings were given: as options of a worker, or as fields of a sweep."""

    OPTIONS = "options"
    FIELDS = "fields"

    def called(self, setting: str) -> str:
        """Return '--image-shape' or 'image_shape'."""
        return flag(setting) if self is Given.OPTIONS else setting

    def shape(self, numbers: Sequence[int]) -> str:
        """Return '3,64,64' or '[3, 64, 64]'."""
        return numbers_text(numbers) if self is Given.OPTIONS else str(list(numbers))


def check_classes(option: str, data: str, wanted: Sequence[str], source: object, fix: str) -> None:
    """Raise SpecError if a label of the shards has another class name than `wanted`.

    Labels without a name, in the shards or in `source` (a file), are not compared.
    """
    path, found = labels_of(data) if wanted and data else (None, ())
    for label, (theirs, ours) in enumerate(zip(wanted, found, strict=False)):
        if theirs != ours and str(label) not in {theirs, ours}:
            raise SpecError(
                error_line(
                    option,
                    expected=f"class {quoted(theirs)} for label {label}, as in {source}",
                    got=f"{quoted(ours)} in {path}",
                    fix=fix,
                )
            )


def check_checkpoint_classes(option: str, data: str, prefix: str, fix: str) -> None:
    """Raise SpecError if shards and checkpoints of a prefix have other classes."""
    if found := read(prefix):
        check_classes(option, data, found.labels, path_of(prefix), fix)


def recipe_note(where: str, data: str, wanted: Recipe | None, source: object) -> str:
    """Return a note if the images have another size than `wanted`, else ''."""
    found = _known_recipe(data) if wanted and data else None
    if not (wanted and found) or wanted.short_edge == found.short_edge:
        return ""
    return (
        f"note: {where}: {data} has images with a short edge of {found.short_edge}, {source} has "
        f"{wanted.short_edge}; the accuracy of crops differs. Pack both with the same --short-edge"
    )


def check_validation(options: "Options", given: Given = Given.OPTIONS) -> str:
    """Return a note if validation and training images have other sizes, else ''.

    Raises SpecError if they have other classes.
    """
    if not options.data_val or options.benchmark or options.bandwidth or options.test_io:
        return ""
    source, names = labels_of(options.data_train)
    where, fix = given.called("data_val"), "Give the validation shards of the same classes"
    check_classes(where, options.data_val, names, source, fix)
    if {*_resolved(options.data_val)} & {*_resolved(options.data_train)}:
        trained = given.called("data_train")
        return f"note: {where}: has shards of {trained}, so the accuracy is that of trained images"
    wanted = _known_recipe(options.data_train)
    return recipe_note(where, options.data_val, wanted, options.data_train)


def fill_from_shards(
    typed: dict[str, Any], argv: Sequence[str], usual: tuple[int, int, int]
) -> list[str]:
    """Set classes and image shape that were not given to those of the training shards.

    `usual` is the image shape to use if the images are large enough. Returns notes. Raises
    SpecError if a given number of classes is too small.
    """
    if typed["benchmark"] or typed["bandwidth"] or not typed["data_train"]:
        return []
    data, named = typed["data_train"], given_options(argv)
    try:
        shards(data)
    except SpecError:
        return []  # reported when they are read
    notes = []
    known = len(class_names(data))
    recipe = packing_recipe(data)
    if "--num-classes" in named:
        notes = [] if typed["test_io"] else check_class_count(data, typed["num_classes"])
    elif known:
        typed["num_classes"] = known
    elif recipe and not typed["test_io"]:
        notes = [
            f"note: {data} has no labels.txt; training {typed['num_classes']} classes. Give the "
            "number of classes by --num-classes"
        ]
    if "--image-shape" not in named and recipe:
        typed["image_shape"] = numbers_text(default_shape(data, usual, typed["data_val"]))
    return notes


def default_shape(
    data: str, usual: tuple[int, int, int], validation: str = ""
) -> tuple[int, int, int]:
    """Return the usual image shape, or a square that all images of the shards have.

    Raises SpecError if there are no shards.
    """
    recipe = packing_recipe(data)
    return _fitting(usual, recipe, _limit(data, validation)) if recipe else usual


def check_class_count(data: str, count: int, given: Given = Given.OPTIONS) -> list[str]:
    """Return a note if a network has more classes than the shards.

    Raises SpecError if it has fewer.
    """
    path, names = labels_of(data)
    if not names or count == len(names):
        return []
    where = given.called("num_classes")
    if count > len(names):
        text = f"the shards have the {len(names)} classes of {path}, the network has {count}"
        return [f"note: {where}: {text}"]
    expected = f"{len(names)} or more, the classes of {path}"
    fix = f"Give {len(names)}"
    raise SpecError(error_line(where, expected=expected, got=count, fix=fix))


def check_image_shape(options: "Options", given: Given = Given.OPTIONS) -> None:
    """Raise SpecError if every training image is too small for the input."""
    if options.benchmark or options.bandwidth:
        return
    recipe = _known_recipe(options.data_train)
    limit = _limit(options.data_train, "" if options.test_io else options.data_val)
    size = options.image_shape[1:]
    needed = options.augmentation.fewest_pixels(size)
    if not (recipe and limit) or (needed[0] <= limit[0] and needed[1] <= limit[1]):
        return
    shape = given.shape(_fitting(options.image_shape, recipe, limit))
    small = min(limit) < recipe.short_edge
    edge = f"short edge of the images in {options.data_train}"
    pack = f"with --short-edge {min(needed)}" + " --enlarge-small" * small
    raise SpecError(
        error_line(
            given.called("image_shape"),
            expected=f"at most {limit[1]} x {limit[0]} pixels, the "
            f"{'smallest packed image' if small else edge}",
            got=f"{needed[1]} x {needed[0]}",
            fix=f"Give {shape}, or pack {pack}" if needed == size else f"Pack {pack}",
        )
    )


def _resolved(data: str) -> list[Path]:
    try:
        return [path.resolve() for path in shards(data)]
    except SpecError:
        return []  # reported when the shards are read


def _known_recipe(data: str) -> Recipe | None:
    """Return the packing recipe of shards; None if unknown or if they cannot be read."""
    try:
        return packing_recipe(data)
    except SpecError:
        return None  # reported when the shards are read


def _limit(data: str, validation: str = "") -> tuple[int, int] | None:
    """Return the height and width that all images of shards have; None if unknown."""
    try:
        recipe = packing_recipe(data)
        smallest = [smallest_image(one) for one in (data, validation) if one]
    except SpecError:
        return None  # reported when the shards are read
    known = [one for one in smallest if one]
    if known:
        return min(height for height, _ in known), min(width for _, width in known)
    edge = recipe.short_edge if recipe and recipe.keep_bytes != "all" else 0
    return (edge, edge) if edge else None


def _fitting(
    usual: tuple[int, int, int], recipe: Recipe, limit: tuple[int, int] | None
) -> tuple[int, int, int]:
    """Return the usual image shape, or a square within the limit if that is smaller."""
    channels, height, width = usual
    if limit and (limit[0] < height or limit[1] < width):
        edge = min(limit)
        height = width = edge if edge == recipe.short_edge else square_edge(edge)
    return 1 if recipe.color == "grey" else channels, height, width
