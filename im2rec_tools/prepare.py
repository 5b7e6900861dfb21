"""Command `prepare`: all of it, from a tree or a tar of tars to shards that read back."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from im2rec_tools.checking import Contents
from im2rec_tools.command import Command, Option, main, tree_root, whole
from im2rec_tools.errors import DataError
from im2rec_tools.files import size
from im2rec_tools.filter import filter_tree, filtered_root
from im2rec_tools.pack import ENCODING, PACKING, Encoding
from im2rec_tools.preparing import Wanted, prepare, shards_root
from im2rec_tools.progress import Plan, Update
from im2rec_tools.recipe import told
from im2rec_tools.split import SMALL, Small, Split, split, validation_root
from im2rec_tools.untar import untar


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
    **encoding: bool,
) -> Plan:
    wanted = Wanted(
        min_images=min_images,
        split=Split(images=val_per_class, seed=seed, small=small),
        train_shards=train_shards,
        val_shards=val_shards,
        recipe=Encoding(**encoding).recipe(),
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
        yield from _told(tree, prepare(tree, wanted))

    def says() -> Iterator[str]:
        if first:
            yield from first.says
            yield f"would then move {val_per_class} images of each class to {validation_root(tree)}"
            if min_images:
                yield f"and classes with fewer than {min_images} images to {filtered_root(tree)}"
        elif min_images:
            yield from filter_tree(tree, least=min_images).says
        if tree.is_dir() and val_per_class:
            yield from split(tree, wanted.split).says
        yield (
            f"would list and pack {tree} into {train_shards} shards for training and {val_shards} "
            f"for validation in {shards_root(tree)}, and read them back; {told(wanted.recipe)}"
        )

    return Plan(says=says(), work=work)


def _told(tree: Path, updates: Iterator[Update | Contents]) -> Iterator[Update]:
    images = shards = total = 0
    for update in updates:
        if isinstance(update, Contents):
            bytes_ = update.path.stat().st_size
            images, shards, total = images + update.images, shards + 1, total + bytes_
            yield (
                f"{update.path}: {update.images} images of {len(update.labels)} classes, "
                f"{size(bytes_)}, read back"
            )
        else:
            yield update
    yield f"{images} images in {shards} shards, {size(total)}, read back: {shards_root(tree)}"


COMMAND = Command(
    name="prepare",
    help="From a tree, or a tar of class tars, to shards in DIR_rec that read back.",
    options=(
        Option(
            name="dir",
            help="labelled tree: a folder of images a class; or a tar of class tars",
            parse=tree_root,
        ),
        Option(
            name="root",
            help="where a tar is unpacked; its name without .tar if not given",
            default="",
        ),
        Option(
            name="min-images",
            help="classes with fewer move to DIR_filtered; 0: none",
            default="0",
            parse=whole(0),
        ),
        Option(
            name="val-per-class",
            help="images of each class that MOVE to DIR_val; 0: use what is there",
            default="50",
            parse=whole(0),
        ),
        Option(name="seed", help="of the validation images", default="0", parse=whole(0)),
        SMALL,
        Option(name="train-shards", help="number of shards", default="8", parse=whole(1)),
        Option(name="val-shards", help="number of shards", default="1", parse=whole(1)),
        *ENCODING,
        *PACKING,
    ),
    plan=_plan,
)

if __name__ == "__main__":
    sys.exit(main(COMMAND))
