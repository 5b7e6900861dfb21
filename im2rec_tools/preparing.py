"""From a tree to shards that read back: filter, split, list, pack, verify, in order."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from im2rec_tools import listing
from im2rec_tools.checking import Contents
from im2rec_tools.errors import DataError
from im2rec_tools.files import held
from im2rec_tools.filter import filter_tree
from im2rec_tools.listing import Images
from im2rec_tools.lists import gather
from im2rec_tools.pack import pack_lists
from im2rec_tools.progress import Plan, Progress, Update
from im2rec_tools.recipe import Recipe
from im2rec_tools.split import Split, split, validation_root
from im2rec_tools.tree import sizes, walk
from im2rec_tools.verify import verify_all
from im2rec_tools.work import Work, shard_of, unfinished


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

    Run again, it goes on where it was and repeats nothing but the reading back. Raises DataError,
    before anything changes, where shards are there that are not of these images and settings.
    """
    with held(shards_root(root)):
        yield from _prepare(root, shards_root(root), wanted)


def _prepare(root: Path, out: Path, wanted: Wanted) -> Iterator[Update | Contents]:
    has_shards = any(out.glob("*/*.rec"))
    if wanted.min_images:
        yield from _moving(filter_tree(root, least=wanted.min_images), out, has_shards)
    if wanted.split.images:
        yield from _moving(split(root, wanted.split), out, has_shards)
    sets = _sets(root, wanted)
    labels = _labels(root, wanted)
    works = []
    for name, tree, count in sets:
        images = Images()
        yield from gather(walk(tree), dict(labels), images, grow=False)
        works.append(
            _listed(
                Work(
                    lists=listing.paths(out / "lists" / name, count),
                    source=tree,
                    folder=out / name,
                    recipe=wanted.recipe,
                    processes=wanted.processes,
                ),
                images,
            )
        )
    listing.write_labels(out / "labels.txt", labels)
    if len(sets) == 1:
        yield f"{validation_root(root)} is not there: no shards for validation"
    for work in works:
        for update in pack_lists(work, wanted.max_bad):
            yield _named(update, work.folder.name)
    yield from _read_back(
        [shard_of(lst, work.folder) for work in works for lst in work.lists], wanted.processes
    )


def _moving(plan: Plan, out: Path, has_shards: bool) -> Iterator[Update]:
    if plan.moves and has_shards:
        raise DataError(
            f"{out}: holds shards, and {plan.moves} images or classes would move now: it was made "
            f"with other settings, or the images have changed; move it away, or run as before"
        )
    yield from plan.work()


def _sets(root: Path, wanted: Wanted) -> list[tuple[str, Path, int]]:
    sets = [("train", root, wanted.train_shards), ("val", validation_root(root), wanted.val_shards)]
    return [one for one in sets if one[1].is_dir()]


def _labels(root: Path, wanted: Wanted) -> dict[str, int]:
    """Class to label. A class may have all its images in validation only by our own split."""
    names = set(sizes(root))
    val = sizes(validation_root(root)) if validation_root(root).is_dir() else {}
    strange = sorted(set(val) - names)
    if strange and not wanted.split.images:
        place = validation_root(root) / strange[0]
        raise DataError(f"{place}: is not a class of the training tree {root}")
    return {name: label for label, name in enumerate(sorted(names | set(val)))}


def _listed(work: Work, images: Images) -> Work:
    """Writes the lists of a set; DataError where its shards were packed from others."""
    prefix = work.lists[0].parent / work.folder.name
    indices = listing.order(len(images))
    there = sorted(work.folder.glob("*.rec"))
    known = listing.found(prefix)
    if there and (known != list(work.lists) or not listing.same(known, images, indices)):
        raise DataError(
            f"{there[0]}: was packed with other settings, or the images of {work.source} have "
            f"changed since; move {work.folder.parent} away, or run as before"
        )
    if known:
        unfinished(work)
    listing.write(prefix, images, indices, len(work.lists))
    return work


def _read_back(shards: list[Path], processes: int) -> Iterator[Progress | Contents]:
    for update in verify_all(shards, processes):
        if isinstance(update, Contents) and update.missing:
            raise DataError(f"{update.path}: has no {update.missing[0]}; move it away, pack again")
        yield update


def _named(update: Update, name: str) -> Update:
    if isinstance(update, str):
        return f"{name}: {update}"
    return Progress(
        step=f"{update.step} {name}", done=update.done, total=update.total, bad=update.bad
    )
