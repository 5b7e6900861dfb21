"""Command `prepare`: turns a labeled tree or a tar into verified shards."""

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
from im2rec_tools.errors import DataError, error_line
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
    """Settings of `prepare`: classes, validation images, shards, encoding."""

    min_images: int = 0
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

    A second run resumes the first, and repeats only the verification. Raises DataError, before
    any change, if there are shards of other images or settings.
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
        yield f"no validation shards: {validation_root(root)} does not exist"
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


def _sets(root: Path, wanted: PrepareOptions) -> list[tuple[str, Path, int]]:
    sets = [("train", root, wanted.train_shards), ("val", validation_root(root), wanted.val_shards)]
    return [one for one in sets if one[1].is_dir()]


def _labels(root: Path, wanted: PrepareOptions) -> dict[str, int]:
    """Return the label of each class.

    Only this program's split may move all images of a class to validation.
    """
    names = set(sizes(root))
    val = sizes(validation_root(root)) if validation_root(root).is_dir() else {}
    strange = sorted(set(val) - names)
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
    return {name: label for label, name in enumerate(sorted(names | set(val)))}


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
        f"{wanted.val_shards} for validation in {shards_root(tree)}, and verify them; "
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
                f"{format_size(bytes_)}, verified"
            )
        else:
            yield update
    size = format_size(total)
    yield f"{images} images in {shards} shards, {size}, verified: {shards_root(tree)}"


PREPARE = Command(
    name="prepare",
    help="Turn a labeled tree or a tar into verified shards.",
    details=(
        "Changes DIR: moves a random validation split to DIR_val ('fab data.split DIR --undo' "
        "moves it back). Then lists and packs the images into DIR_rec, and verifies every shard."
    ),
    example="data/photos --val-per-class 20 --train-shards 4",
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
            "Move this many images of each class to DIR_val; 0 uses the images already in DIR_val",
            default="50",
            parse=integer(0),
        ),
        replace(SEED, text="Seed of the random choice of validation images"),
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
