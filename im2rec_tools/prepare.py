"""From a labelled tree to shards: split, list, pack, read back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from im2rec_tools import listing
from im2rec_tools.codec import Recipe
from im2rec_tools.errors import DataError
from im2rec_tools.files import write_whole
from im2rec_tools.pack import Packed, manifest, pack_lists, shard_of
from im2rec_tools.split import split, validation_root
from im2rec_tools.tree import classes
from im2rec_tools.verify import verify


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to make: validation images of each class, numbers of shards, and how to encode."""

    val_per_class: int = 50
    train_shards: int = 8
    val_shards: int = 1
    seed: int = 0
    recipe: Recipe = field(default_factory=Recipe)


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A shard that was read back whole."""

    path: Path
    images: int
    classes: int
    bytes: int
    bad: tuple[str, ...]


def shards_root(root: Path) -> Path:
    """Where the shards of the tree at `root` go: 'images' -> 'images_rec'."""
    return root.with_name(root.name + "_rec")


def prepare(root: Path, wanted: Wanted) -> Iterator[tuple[str, Packed] | Shard]:
    """Makes ROOT_rec/train and ROOT_rec/val; yields progress of packing, then each shard.

    Run again, it goes on where it was and repeats nothing but the reading back.
    """
    split(root, images_per_class=wanted.val_per_class, seed=wanted.seed)
    labels = list(classes(root))
    out = shards_root(root)
    write_whole(out / "labels.txt", "".join(f"{n}\t{name}\n" for n, name in enumerate(labels)))
    jobs = (
        ("train", root, wanted.train_shards),
        ("val", validation_root(root), wanted.val_shards),
    )
    for name, tree, count in jobs:
        folder = out / name
        lists = listing.write(
            out / "lists" / name, listing.entries(tree, classes(tree), labels), count
        )
        _refuse_strangers(folder, lists)
        for packed in pack_lists(lists, tree, folder, wanted.recipe):
            yield name, packed
        for lst in lists:
            yield _read_back(shard_of(lst, folder))


def _refuse_strangers(folder: Path, lists: Sequence[Path]) -> None:
    """DataError where the folder holds shards of another number of lists: both would be read."""
    ours = {shard_of(lst, folder) for lst in lists}
    for path in sorted(set(folder.glob("*.rec")) - ours):
        raise DataError(
            f"{path}: was packed with other settings and would be read beside the new shards; "
            f"move it away and run the same command again"
        )


def _read_back(rec: Path) -> Shard:
    contents = verify(rec)
    made = manifest(rec)
    assert made is not None
    return Shard(
        path=rec,
        images=contents.images,
        classes=len(contents.labels),
        bytes=made.bytes,
        bad=tuple(f"{path}: {why}" for path, why in made.bad),
    )
