"""Splits off a validation set: some images of each class move to a tree beside the first."""

import random
from pathlib import Path

from im2rec_tools.errors import DataError
from im2rec_tools.tree import classes, images


def validation_root(root: Path) -> Path:
    """Where the validation images of the tree at `root` go: 'images' -> 'images_val'."""
    return root.with_name(root.name + "_val")


def split(root: Path, *, images_per_class: int, seed: int = 0) -> int:
    """Moves `images_per_class` random images of each class to `validation_root(root)`.

    The choice depends on the seed and the names alone, so that an interrupted run goes on where
    it was and a second one does nothing. Returns how many images the validation tree holds.
    Raises DataError, before anything moves, where a class would be left without images.
    """
    target = validation_root(root)
    moves: list[tuple[Path, Path]] = []
    for name, paths in classes(root).items():
        folder = target / name
        moved = [path.name for path in images(folder)] if folder.is_dir() else []
        everything = sorted({path.name for path in paths} | set(moved))
        if len(everything) <= images_per_class:
            raise DataError(
                f"{root / name}: has {len(everything)} images; expected more than the "
                f"{images_per_class} that validation takes of each class (--val-per-class)"
            )
        draw = random.Random(f"{seed} {name}")
        chosen = set(draw.sample(everything, images_per_class))
        if set(moved) - chosen:
            raise DataError(
                f"{folder}: holds images that this split does not choose; it was made with other "
                f"settings. Move them back to {root / name} and split again"
            )
        moves += [(root / name / file, folder / file) for file in sorted(chosen - set(moved))]
    try:
        for source, destination in moves:
            destination.parent.mkdir(parents=True, exist_ok=True)
            source.rename(destination)
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror})") from error
    return sum(len(paths) for paths in classes(target).values())
