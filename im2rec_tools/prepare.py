"""Command `prepare`: all of it, from a tree or a tar of tars to shards that read back."""

import os
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from im2rec_tools import listing
from im2rec_tools.checking import Contents
from im2rec_tools.command import Command, Option, main, tree_root, whole
from im2rec_tools.errors import DataError
from im2rec_tools.files import size
from im2rec_tools.filter import filter_tree, filtered_root
from im2rec_tools.listing import Images
from im2rec_tools.lists import gather
from im2rec_tools.pack import ENCODING, PACKING, Encoding, pack_lists
from im2rec_tools.progress import Plan, Progress, Update
from im2rec_tools.recipe import Recipe
from im2rec_tools.split import SMALL, Small, Split, split, validation_root
from im2rec_tools.tree import sizes, walk
from im2rec_tools.untar import untar
from im2rec_tools.verify import verify_all
from im2rec_tools.work import Work, shard_of


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to make of a tree: which classes, validation images, numbers of shards, encoding."""

    min_images: int = 0
    split: Split = field(default_factory=Split)
    train_shards: int = 8
    val_shards: int = 1
    recipe: Recipe = field(default_factory=Recipe)
    processes: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    max_bad: float = 0.001


def shards_root(root: Path) -> Path:
    """Where the shards of the tree at `root` go: 'images' -> 'images_rec'."""
    return root.with_name(f"{root.name}_rec")


def prepare(root: Path, wanted: Wanted) -> Iterator[Update | Contents]:
    """Makes ROOT_rec/train and ROOT_rec/val of a tree; yields each shard that was read back.

    Run again, it goes on where it was and repeats nothing but the reading back.
    """
    if wanted.min_images:
        yield from filter_tree(root, least=wanted.min_images).work()
    if wanted.split.images:
        yield from split(root, wanted.split).work()
    out = shards_root(root)
    labels = {name: label for label, name in enumerate(sizes(root))}
    listing.write_labels(out / "labels.txt", labels)
    shards: list[Path] = []
    for name, tree, count in (
        ("train", root, wanted.train_shards),
        ("val", validation_root(root), wanted.val_shards),
    ):
        if not tree.is_dir():
            continue
        lists = yield from _listed(tree, out / "lists" / name, labels, count)
        work = Work(
            lists=lists,
            source=tree,
            folder=out / name,
            recipe=wanted.recipe,
            processes=wanted.processes,
        )
        _refuse_strangers(work)
        yield from (_named(update, name) for update in pack_lists(work, wanted.max_bad))
        shards += [shard_of(lst, work.folder) for lst in lists]
    for update in verify_all(shards, wanted.processes):
        if isinstance(update, Contents) and update.missing:
            raise DataError(f"{update.path}: has no {update.missing[0]}; move it away, pack again")
        yield update


def _listed(
    tree: Path, prefix: Path, labels: dict[str, int], count: int
) -> Generator[Progress, None, list[Path]]:
    images = Images()
    yield from gather(walk(tree), dict(labels), images, grow=False)
    return listing.write(prefix, images, listing.order(len(images)), count)


def _named(update: Update, name: str) -> Update:
    if isinstance(update, str):
        return f"{name}: {update}"
    return Progress(
        step=f"{update.step} {name}", done=update.done, total=update.total, bad=update.bad
    )


def _refuse_strangers(work: Work) -> None:
    """DataError where the folder holds shards of other lists: they would be read too."""
    ours = {shard_of(lst, work.folder) for lst in work.lists}
    for path in sorted(set(work.folder.glob("*.rec")) - ours):
        raise DataError(
            f"{path}: was packed with other settings and would be read beside the new shards; "
            f"move it away and run the same command again"
        )


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
        untar(dir, tree, scratch=tree, max_bad=max_bad, also_in=filtered_root(tree))
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
        elif min_images:
            yield from filter_tree(tree, least=min_images).says
        if tree.is_dir() and val_per_class:
            yield from split(tree, wanted.split).says
        yield (
            f"would list and pack {tree} into {train_shards} shards for training and {val_shards} "
            f"for validation in {shards_root(tree)}, and read them back; {wanted.recipe}"
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
