"""Command `prepare`: turns a labeled tree or a tar into verified shards."""

import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from im2rec_tools.cli import tree_root
from im2rec_tools.commands.pack import TooManyBadError, pack_lists, recipe_of
from im2rec_tools.commands.shards import verify_all
from im2rec_tools.commands.sweep_file import (
    Shape,
    next_commands,
    prepared,
    small_image_lines,
    write_sweep,
)
from im2rec_tools.commands.trees import (
    Small,
    SplitOptions,
    choose,
    filter_tree,
    filtered_root,
    images_of,
    small_class_notes,
    small_classes,
    some,
    split,
    validation_root,
)
from im2rec_tools.commands.untar import untar
from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import format_size, lock
from im2rec_tools.formats import lists
from im2rec_tools.formats.compression import uncompressed_name
from im2rec_tools.formats.lists import Images, gather
from im2rec_tools.formats.recipe import Recipe, describe
from im2rec_tools.formats.tree import classes, sizes, walk, without_images
from im2rec_tools.packing import manifest
from im2rec_tools.packing.packer import PackJob, missing_shards, shard_of
from im2rec_tools.packing.verify import ShardContents
from im2rec_tools.progress import Plan, Progress, Update


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """Settings of `prepare`: classes, validation images, shards, encoding.

    move         move the validation images and the small classes out of the tree
    out          folder of the shards; None uses `shards_root`
    image_shape  input of the network that will read the images
    """

    min_images: int = 0
    move: bool = False
    out: Path | None = None
    image_shape: Shape = (3, 224, 224)
    split: SplitOptions = field(default_factory=SplitOptions)
    train_shards: int = 8
    val_shards: int = 1
    recipe: Recipe = field(default_factory=Recipe)
    processes: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    max_bad: float = 0.001


def shards_root(root: Path) -> Path:
    """Return the folder of a tree's shards: 'images_rec' for 'images'."""
    return root.with_name(f"{root.name}_rec")


def prepare(root: Path, wanted: PrepareOptions) -> Iterator[Update | ShardContents]:
    """Make ROOT_rec/train and ROOT_rec/val from a tree; yield each verified shard.

    The tree is only read, unless the settings ask to move images. A second run resumes the first,
    and repeats only the verification. Raises DataError, before any change, if there are shards of
    other images or settings.
    """
    out = _folder(root, wanted)
    with lock(out, fix="Name another folder with --out"):
        yield from _prepare(root, out, wanted)


def _folder(root: Path, wanted: PrepareOptions) -> Path:
    return wanted.out or shards_root(root)


def _prepare(root: Path, out: Path, wanted: PrepareOptions) -> Iterator[Update | ShardContents]:
    has_shards = any(out.glob("*/*.rec"))
    if wanted.move and wanted.min_images:
        yield from _tree_changes(filter_tree(root, least=wanted.min_images), out, has_shards)
    if wanted.move and wanted.split.images:
        yield from _tree_changes(split(root, wanted.split), out, has_shards)
    selection = select(root, wanted)
    yield from selection.notes
    yield from _notes_on_others(root)
    sets = _sets(root, wanted, selection)
    labels = _labels(root, wanted, selection)
    works = []
    for name, tree, count in sets:
        images = Images()
        listed = _listed(tree, selection, validation=name == "val")
        yield from gather(listed, dict(labels), images, grow=False)
        works.append(
            _write_lists(
                PackJob(
                    lists=lists.list_paths(out / "lists" / name, count),
                    source=tree,
                    folder=out / name,
                    recipe=wanted.recipe,
                    processes=wanted.processes,
                ),
                images,
            )
        )
    lists.write_labels(out / lists.LABELS_FILE, labels)
    if len(sets) == 1:
        yield f"no validation shards: {validation_root(root)} does not exist"
    too_bad: list[TooManyBadError] = []
    for work in works:
        try:
            for update in pack_lists(work, wanted.max_bad):
                name = work.folder.name
                if isinstance(update, str):
                    yield f"{name}: {update}"
                else:
                    yield replace(update, step=f"{update.step} {name}")
        except TooManyBadError as error:
            too_bad.append(error)
    if too_bad:  # its advice is right for all sets
        raise max(too_bad, key=lambda one: one.share)
    yield from _read_back(
        [shard_of(lst, work.folder) for work in works for lst in work.lists], wanted.processes
    )


def _notes_on_others(root: Path) -> Iterator[str]:
    """Yield notes on folders and files of a tree that are not used."""
    empty, others = without_images(root)
    if empty:
        yield f"note: {len(empty)} folder{'s' * (len(empty) > 1)} without images: {some(empty)}"
    if others:
        yield f"note: not used, no image file extension: {some(others)}"


def _tree_changes(plan: Plan, out: Path, has_shards: bool) -> Iterator[Update]:
    if plan.moves and has_shards:
        raise DataError(
            error_line(
                out,
                problem=(
                    f"has shards of other settings or images; {plan.moves} images or classes would "
                    "move now"
                ),
                fix="Move the folder away, or use the earlier settings",
            )
        )
    yield from plan.work()


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The split of a tree whose images stay where they are.

    validation  names of the validation images, by class; None if they have a tree of their own
    left_out    classes that are too small
    """

    validation: Mapping[str, Container[str]] | None = None
    left_out: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def _sets(root: Path, wanted: PrepareOptions, selection: Selection) -> list[tuple[str, Path, int]]:
    """Return name, source and number of shards of each set."""
    val = validation_root(root) if selection.validation is None else root
    sets = [("train", root, wanted.train_shards), ("val", val, wanted.val_shards)]
    return [one for one in sets if one[1].is_dir()]


def select(root: Path, wanted: PrepareOptions) -> Selection:
    """Choose validation images and small classes without moving them.

    Raises DataError if there is a validation tree, unless it is this very split.
    """
    if wanted.move:
        return Selection()
    least, notes, left_out = wanted.min_images, list[str](), list[str]()
    if least:
        counts, left_out = small_classes(root, least)
        total = sum(counts[name] for name in left_out)
        notes.append(f"{len(left_out)} classes with {total} images are left out (--min-images)")
    if not wanted.split.images:
        return Selection(left_out=frozenset(left_out), notes=tuple(notes))
    moved = images_of(validation_root(root))
    images = {name: files for name, files in classes(root).items() if name not in set(left_out)}
    everything = {
        name: sorted({*images.get(name, ()), *moved.get(name, ())})
        for name in sorted({*images, *moved})
    }
    chosen = choose(everything, wanted.split)
    if moved and {name: set(moved.get(name, ())) for name in chosen} != chosen:
        raise DataError(
            error_line(
                validation_root(root),
                problem="has validation images already",
                fix=(
                    "Use them with --val-per-class 0; if an earlier run moved them there, add "
                    f"--move, or move them back with data.split {root} --undo"
                ),
            )
        )
    notes += small_class_notes(root, everything, wanted.split)
    return Selection(
        validation=None if moved else chosen, left_out=frozenset(left_out), notes=tuple(notes)
    )


def _listed(
    tree: Path, selection: Selection, *, validation: bool
) -> Iterator[tuple[str, list[str]]]:
    """Yield the folders of a tree with the names of the images of one set."""
    chosen = selection.validation
    for name, files in walk(tree):
        if name.partition("/")[0] in selection.left_out:
            continue
        if chosen is None:
            yield name, files
        elif kept := [file for file in files if (file in chosen.get(name, ())) == validation]:
            yield name, kept


def _labels(root: Path, wanted: PrepareOptions, selection: Selection) -> dict[str, int]:
    """Return the label of each class.

    Only this program's split may move all images of a class to validation.
    """
    names = set(sizes(root)) - selection.left_out
    has_tree = selection.validation is None and validation_root(root).is_dir()
    val = set(sizes(validation_root(root)) if has_tree else ()) - selection.left_out
    strange = sorted(val - names)
    if strange and not wanted.split.images:
        place = validation_root(root) / strange[0]
        raise DataError(
            error_line(
                place,
                expected=f"a class of the training tree {root}",
                got="another folder",
                fix="Move it away",
            )
        )
    return {name: label for label, name in enumerate(sorted(names | val))}


def _write_lists(work: PackJob, images: Images) -> PackJob:
    """Write the lists of a set; raise DataError for shards of other lists."""
    prefix = work.lists[0].parent / work.folder.name
    indices = lists.shuffled_order(len(images))
    there = sorted(work.folder.glob("*.rec"))
    known = lists.find_lists(prefix)
    if there and (known != list(work.lists) or not lists.holds_images(known, images, indices)):
        raise DataError(
            error_line(
                there[0],
                problem=(
                    f"packed with other settings, or the images of {work.source} have changed"
                ),
                fix=f"Move {work.folder.parent} away, or use the earlier settings",
            )
        )
    if known:
        missing_shards(work)
    lists.write(prefix, images, indices, len(work.lists))
    return work


def _read_back(shards: list[Path], processes: int) -> Iterator[Progress | ShardContents]:
    for update in verify_all(shards, processes):
        if isinstance(update, ShardContents) and update.missing:
            raise DataError(
                error_line(
                    update.path,
                    problem=f"the {update.missing[0]} is missing",
                    fix="Move the shard away and pack again",
                )
            )
        if isinstance(update, ShardContents):
            least = tuple(min(size[axis] for size in update.sizes) for axis in (0, 1))
            manifest.add_smallest(update.path, (least[0], least[1]))
        yield update


def plan_prepare(
    dir: Path,
    *,
    root: str,
    out: Path | None,
    move: bool,
    image_shape: Shape,
    min_images: int,
    val_per_class: int,
    seed: int,
    small: Small,
    train_shards: int,
    val_shards: int,
    processes: int,
    max_bad: float,
    **encoding: Any,
) -> Plan:
    """Plan to turn a tree or a tar into shards; see `prepare`."""
    wanted = PrepareOptions(
        min_images=min_images,
        move=move,
        out=out,
        image_shape=image_shape,
        split=SplitOptions(images=val_per_class, seed=seed, small=small),
        train_shards=train_shards,
        val_shards=val_shards,
        recipe=recipe_of(**encoding),
        processes=processes or len(os.sched_getaffinity(0)),
        max_bad=max_bad,
    )
    tree = tree_root("--root", root or str(uncompressed_name(dir) if dir.is_file() else dir))
    first = (
        untar(
            dir,
            tree,
            scratch=tree,
            max_bad=max_bad,
            also_in=(filtered_root(tree), validation_root(tree)),
        )
        if dir.is_file()
        else None
    )
    if not first and not dir.is_dir():
        raise DataError(
            error_line(
                dir,
                expected="a folder or tar",
                got="no such file",
                fix="Give a folder with one folder of images per class",
            )
        )

    def work() -> Iterator[Update]:
        if first:
            yield from first.work()
        yield from _report(tree, wanted, prepare(tree, wanted))

    return Plan(says=_plan_lines(tree, wanted, first), work=work)


def _plan_lines(tree: Path, wanted: PrepareOptions, first: Plan | None) -> Iterator[str]:
    least, images = wanted.min_images, wanted.split.images
    if first:
        yield from first.says
        if wanted.move:
            yield f"would then move {images} images of each class to {validation_root(tree)}"
        if wanted.move and least:
            yield f"and classes with fewer than {least} images to {filtered_root(tree)}"
    elif wanted.move and least:
        yield from filter_tree(tree, least=least).says
    if wanted.move and tree.is_dir() and images:
        yield from split(tree, wanted.split).says
    if not wanted.move:
        if tree.is_dir():
            yield from select(tree, wanted).notes
        yield (
            f"would use {images} images of each class for validation"
            if images
            else (f"would use the images of {validation_root(tree)} for validation")
        )
        yield f"would leave all images in {tree}"
    yield (
        f"would list and pack {tree} into {wanted.train_shards} shards for training and "
        f"{wanted.val_shards} for validation in {_folder(tree, wanted)}, and verify them; "
        f"{describe(wanted.recipe)}"
    )


def _report(
    tree: Path, wanted: PrepareOptions, updates: Iterator[Update | ShardContents]
) -> Iterator[Update]:
    found: list[ShardContents] = []
    total = 0
    for update in updates:
        if isinstance(update, ShardContents):
            bytes_ = update.path.stat().st_size
            found.append(update)
            total += bytes_
            yield (
                f"{update.path}: {update.images} images of {len(update.labels)} classes, "
                f"{format_size(bytes_)}, verified"
            )
        else:
            yield update
    out, images = _folder(tree, wanted), sum(one.images for one in found)
    made = prepared(
        out,
        tree.name,
        found,
        classes=len(lists.read_labels(out / lists.LABELS_FILE)),
        wanted=wanted.image_shape,
    )
    yield f"{images} images in {len(found)} shards, {format_size(total)}, verified: {out}"
    yield from small_image_lines(made, wanted.recipe.short_edge)
    yield write_sweep(made)
    yield from next_commands(made)
