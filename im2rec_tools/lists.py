"""Folders of images to the lists of a set, one a shard, with the labels of its classes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from im2rec_tools import listing
from im2rec_tools.errors import DataError
from im2rec_tools.listing import Images
from im2rec_tools.progress import Progress

_SAY_EVERY = 10_000


def labels_of(prefix: Path) -> Path:
    """Where the labels of a prefix's lists stand."""
    return prefix.with_name(f"{prefix.name}_labels.txt")


def gather(
    folders: Iterable[tuple[str, list[str]]], known: dict[str, int], images: Images, *, grow: bool
) -> Iterator[Progress]:
    """Adds the images of folders, each with its class's label.

    A class that is not known gets the next label where the labels may grow, and DataError else.
    """
    said = 0
    for name, files in folders:
        if name not in known:
            if not grow:
                raise DataError(f"{name}: is not a class of the training tree, by its labels")
            known[name] = len(known)
        for file in files:
            images.add(known[name], file if name == "." else f"{name}/{file}")
        if len(images) - said >= _SAY_EVERY:
            said = len(images)
            yield Progress(step="listing", done=said)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """How many lists: `chunks`, or as many as hold `images_per_shard` each at most."""

    chunks: int = 1
    images_per_shard: int = 0

    def __post_init__(self) -> None:
        if self.images_per_shard and self.chunks > 1:
            raise DataError("--chunks and --images-per-shard: expected one of them, got both")

    def __str__(self) -> str:
        if self.images_per_shard:
            return f"lists of {self.images_per_shard} images"
        return f"{self.chunks} lists" if self.chunks > 1 else "one list"

    def of(self, images: int) -> int:
        """The number of lists for so many images."""
        return -(-images // self.images_per_shard) if self.images_per_shard else self.chunks


def write_lists(
    prefix: Path, images: Images, known: Mapping[str, int], parts: Parts, *, shuffle: bool = True
) -> list[Path]:
    """Writes the lists and the labels file of a prefix; DataError where there is no image."""
    if not len(images):
        raise DataError(f"{prefix}: expected images to list, found none")
    indices = listing.order(len(images)) if shuffle else range(len(images))
    # First: where there are lists, a run that goes on writes neither.
    listing.write_labels(labels_of(prefix), known)
    return listing.write(prefix, images, indices, parts.of(len(images)))
