"""Command `prepare`: from a tree or a tar of tars to verified shards."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from im2rec_tools.cli import Command, Option, integer, tree_root
from im2rec_tools.commands.arguments import (
    ENCODING,
    MAX_BAD,
    MIN_IMAGES,
    PROCESSES,
    SEED,
    SMALL,
    TRAIN_SHARDS,
    VAL_SHARDS,
)
from im2rec_tools.commands.pack import pack_lists, recipe_of
from im2rec_tools.commands.shards import verify_all
from im2rec_tools.commands.trees import (
    Small,
    SplitOptions,
    filter_tree,
    filtered_root,
    split,
    validation_root,
)
from im2rec_tools.commands.untar import untar
from im2rec_tools.errors import DataError
from im2rec_tools.files import format_size, lock
from im2rec_tools.formats import lists
from im2rec_tools.formats.lists import Images, gather
from im2rec_tools.formats.recipe import Recipe, describe
from im2rec_tools.formats.tree import sizes, walk
from im2rec_tools.packing.packer import PackJob, missing_shards, shard_of
from im2rec_tools.packing.verify import ShardContents
from im2rec_tools.progress import Plan, Progress, Update


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """What to make of a tree: which classes, validation images, numbers of shards, encoding."""

    min_images: int = 0
    split: SplitOptions = field(default_factory=SplitOptions)
    train_shards: int = 8
    val_shards: int = 1
    recipe: Recipe = field(default_factory=Recipe)
    processes: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    max_bad: float = 0.001


def shards_root(root: Path) -> Path:
    """Where the shards of the tree at `root` go: 'images' -> 'images_rec'."""
    return root.with_name(f"{root.name}_rec")


def prepare(root: Path, wanted: PrepareOptions) -> Iterator[Update | ShardContents]:
    """Makes ROOT_rec/train and ROOT_rec/val of a tree; yields each shard that was read back.

    Run again, it goes on where it was and repeats nothing but the reading back. Raises DataError,
    before anything changes, where shards are there that are not of these images and settings.
    """
    with lock(shards_root(root)):
        yield from _prepare(root, shards_root(root), wanted)


def _prepare(root: Path, out: Path, wanted: PrepareOptions) -> Iterator[Update | ShardContents]:
    has_shards = any(out.glob("*/*.rec"))
    if wanted.min_images:
        yield from _tree_changes(filter_tree(root, least=wanted.min_images), out, has_shards)
    if wanted.split.images:
        yield from _tree_changes(split(root, wanted.split), out, has_shards)
    sets = _sets(root, wanted)
    labels = _labels(root, wanted)
    works = []
    for name, tree, count in sets:
        images = Images()
        yield from gather(walk(tree), dict(labels), images, grow=False)
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
    lists.write_labels(out / "labels.txt", labels)
    if len(sets) == 1:
        yield f"{validation_root(root)} is not there: no shards for validation"
    for work in works:
        for update in pack_lists(work, wanted.max_bad):
            name = work.folder.name
            if isinstance(update, str):
                yield f"{name}: {update}"
            else:
                yield replace(update, step=f"{update.step} {name}")
    yield from _read_back(
        [shard_of(lst, work.folder) for work in works for lst in work.lists], wanted.processes
    )


def _tree_changes(plan: Plan, out: Path, has_shards: bool) -> Iterator[Update]:
    if plan.moves and has_shards:
        raise DataError(
            f"{out}: holds shards, and {plan.moves} images or classes would move now: it was made "
            f"with other settings, or the images have changed; move it away, or run as before"
        )
    yield from plan.work()


def _sets(root: Path, wanted: PrepareOptions) -> list[tuple[str, Path, int]]:
    sets = [("train", root, wanted.train_shards), ("val", validation_root(root), wanted.val_shards)]
    return [one for one in sets if one[1].is_dir()]


def _labels(root: Path, wanted: PrepareOptions) -> dict[str, int]:
    """Class to label. A class may have all its images in validation only by our own split."""
    names = set(sizes(root))
    val = sizes(validation_root(root)) if validation_root(root).is_dir() else {}
    strange = sorted(set(val) - names)
    if strange and not wanted.split.images:
        place = validation_root(root) / strange[0]
        raise DataError(f"{place}: is not a class of the training tree {root}")
    return {name: label for label, name in enumerate(sorted(names | set(val)))}


def _write_lists(work: PackJob, images: Images) -> PackJob:
    """Writes the lists of a set; DataError where its shards were packed from others."""
    prefix = work.lists[0].parent / work.folder.name
    indices = lists.shuffled_order(len(images))
    there = sorted(work.folder.glob("*.rec"))
    known = lists.find_lists(prefix)
    if there and (known != list(work.lists) or not lists.holds_images(known, images, indices)):
        raise DataError(
            f"{there[0]}: was packed with other settings, or the images of {work.source} have "
            f"changed since; move {work.folder.parent} away, or run as before"
        )
    if known:
        missing_shards(work)
    lists.write(prefix, images, indices, len(work.lists))
    return work


def _read_back(shards: list[Path], processes: int) -> Iterator[Progress | ShardContents]:
    for update in verify_all(shards, processes):
        if isinstance(update, ShardContents) and update.missing:
            raise DataError(f"{update.path}: has no {update.missing[0]}; move it away, pack again")
        yield update


def _plan(
    dir: Path,
    *,
    root: str,
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
    wanted = PrepareOptions(
        min_images=min_images,
        split=SplitOptions(images=val_per_class, seed=seed, small=small),
        train_shards=train_shards,
        val_shards=val_shards,
        recipe=recipe_of(**encoding),
        processes=processes or len(os.sched_getaffinity(0)),
        max_bad=max_bad,
    )
    tree = tree_root("--root", root or str(dir.with_suffix("") if dir.is_file() else dir))
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
        raise DataError(f"{dir}: no such folder or tar; expected one with a folder a class")

    def work() -> Iterator[Update]:
        if first:
            yield from first.work()
        yield from _totals(tree, prepare(tree, wanted))

    return Plan(says=_plan_lines(tree, wanted, first), work=work)


def _plan_lines(tree: Path, wanted: PrepareOptions, first: Plan | None) -> Iterator[str]:
    least, images = wanted.min_images, wanted.split.images
    if first:
        yield from first.says
        yield f"would then move {images} images of each class to {validation_root(tree)}"
        if least:
            yield f"and classes with fewer than {least} images to {filtered_root(tree)}"
    elif least:
        yield from filter_tree(tree, least=least).says
    if tree.is_dir() and images:
        yield from split(tree, wanted.split).says
    yield (
        f"would list and pack {tree} into {wanted.train_shards} shards for training and "
        f"{wanted.val_shards} for validation in {shards_root(tree)}, and read them back; "
        f"{describe(wanted.recipe)}"
    )


def _totals(tree: Path, updates: Iterator[Update | ShardContents]) -> Iterator[Update]:
    images = shards = total = 0
    for update in updates:
        if isinstance(update, ShardContents):
            bytes_ = update.path.stat().st_size
            images, shards, total = images + update.images, shards + 1, total + bytes_
            yield (
                f"{update.path}: {update.images} images of {len(update.labels)} classes, "
                f"{format_size(bytes_)}, read back"
            )
        else:
            yield update
    size = format_size(total)
    yield f"{images} images in {shards} shards, {size}, read back: {shards_root(tree)}"


PREPARE = Command(
    name="prepare",
    help="Turn a labeled tree or a tar into verified shards.",
    details=(
        "Moves a validation split out of the tree, lists and packs the images into DIR_rec, and "
        "reads every shard back."
    ),
    options=(
        Option(
            "dir",
            "DIR",
            "Labeled tree (one folder of images per class), or a tar of class tars",
            parse=tree_root,
        ),
        Option(
            "root",
            "DIR",
            "Folder to unpack a tar to",
            default="",
            empty="the tar's name without .tar",
        ),
        Option(
            "val-per-class",
            "N",
            "MOVE this many images of each class to DIR_val; 0 uses DIR_val as it is",
            default="50",
            parse=integer(0),
        ),
        replace(SEED, text="Seed of the choice of validation images"),
        replace(
            MIN_IMAGES,
            text="Move classes with fewer images to DIR_filtered; 0 keeps all",
            default="0",
            parse=integer(0),
        ),
        SMALL,
        TRAIN_SHARDS,
        VAL_SHARDS,
        *ENCODING,
        PROCESSES,
        MAX_BAD,
    ),
    plan=_plan,
)
