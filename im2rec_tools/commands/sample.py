"""Command `sample`: creates a labeled tree of sample photographs.

The images are crops of scikit-image's photographs; docs/reference/data-formats.md lists the source
and license of each.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from im2rec_tools.commands.trees import validation_root
from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import check_space, create_folder, part_of, remove
from im2rec_tools.formats.tree import sizes
from im2rec_tools.progress import Plan, Progress, Update

if TYPE_CHECKING:
    from im2rec_tools.sample_images import Shape

_UPDATE_EVERY = 100
_BYTES = {".png": 4_096, ".jpg": 60_000, ".JPEG": 130_000}  # per image on disk, approximate
_SHARES = {"imagenet": 0.01}


def sample(
    root: Path,
    *,
    shape: str = "photographs",
    images_per_class: int = 0,
    share: float = 0,
    seed: int = 0,
) -> Iterator[Update]:
    """Create the tree at `root`; equal arguments give equal images.

    images_per_class  0 uses a share of the data set's own counts
    share             fraction of the counts; 0 uses the shape's default

    The validation images go to `validation_root(root)`. A complete tree is left unchanged.
    Raises DataError if `root` has other contents.
    """
    # OpenCV is loaded only to draw
    from im2rec_tools.sample_images import shape_of  # noqa: PLC0415

    wanted = shape_of(shape)
    share = share or _SHARES.get(shape, 1)
    trees = {
        tree: {
            name: images_per_class or max(1, round(count * share)) for name, count in counts.items()
        }
        for tree, counts in ((root, wanted.train), (validation_root(root), wanted.val))
        if counts and not (images_per_class and tree != root)
    }
    total = sum(sum(counts.values()) for counts in trees.values())
    work = part_of(root)
    if _is_complete(root, trees):
        remove(work)
        yield Progress(step="drawing", done=total, total=total)
    else:
        check_space(
            root, total * _BYTES[wanted.ending], "Set --images-per-class or a smaller --percent"
        )
        try:
            root.parent.mkdir(parents=True, exist_ok=True)
            create_folder(work)
            try:
                yield from _draw_trees(wanted, work, trees, seed)
            finally:
                remove(work)
        except OSError as error:
            raise DataError(
                error_line(root, problem=f"cannot be written ({error.strerror})")
            ) from error
    yield f"{total} images of {len(wanted.train)} classes in {' and '.join(map(str, trees))}"


def _draw_trees(
    wanted: "Shape", work: Path, trees: dict[Path, dict[str, int]], seed: int
) -> Iterator[Progress]:
    """Draw all trees in the folder `work`, then move them to their final paths."""
    done, total = 0, sum(sum(counts.values()) for counts in trees.values())
    for at, (place, counts) in zip(("", " val"), trees.items(), strict=False):
        for number, (name, count) in enumerate(counts.items()):
            for _ in _draw(wanted, work / place.name / name, number, count, f"{seed}{at}"):
                done += 1
                if done % _UPDATE_EVERY == 0 or done == total:
                    yield Progress(step="drawing", done=done, total=total)
    for place in reversed(trees):  # `root` last: if it exists, all is complete
        (work / place.name).rename(place)


def _is_complete(root: Path, trees: dict[Path, dict[str, int]]) -> bool:
    if root.exists() and not root.is_dir():
        raise DataError(
            error_line(
                root, expected="an empty or new folder", got="a file", fix="Choose another ROOT"
            )
        )
    if not root.exists() or not any(root.iterdir()):
        if root.is_dir():
            root.rmdir()
        return False
    # After `split`, some images of each class are in the validation tree.
    there = [tree for tree in (root, validation_root(root)) if tree.is_dir()]
    found = sum(sum(sizes(tree).values()) for tree in there)
    wanted = sum(sum(counts.values()) for counts in trees.values())
    if found != wanted or set(sizes(root)) != set(trees[root]):
        raise DataError(
            error_line(
                root,
                expected=f"an empty or new folder, or this sample of {wanted} images",
                got="other files",
                fix="Choose another ROOT, or remove it",
            )
        )
    return True


def _draw(wanted: "Shape", folder: Path, number: int, count: int, seed: str) -> Iterator[None]:
    import cv2  # noqa: PLC0415

    folder.mkdir(parents=True)
    draw = random.Random(f"{seed} {folder.name}")
    for at in range(count):
        pixels, options = wanted.draw(number, draw)
        name = folder / f"{folder.name}_{at:04}{wanted.ending}"
        if not cv2.imwrite(str(name), pixels, options):
            raise DataError(
                error_line(name, problem="cannot be written (OpenCV)", fix="Check the disk")
            )
        yield


def plan_sample(
    root: Path, *, shape: str, images_per_class: int, percent: float, seed: int
) -> Plan:
    """Plan to create a tree of sample images; see `sample`."""

    def work() -> Iterator[Update]:
        return sample(
            root, shape=shape, images_per_class=images_per_class, share=percent, seed=seed
        )

    many = f"{images_per_class} images per class" if images_per_class else "with its own counts"
    return Plan(says=[f"would create {root} in the shape of {shape}, {many}"], work=work)
