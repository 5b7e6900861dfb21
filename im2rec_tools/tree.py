"""A labelled tree: a folder with a folder of images for each class."""

from pathlib import Path

from im2rec_tools.errors import DataError

SUFFIXES = frozenset({".jpeg", ".jpg", ".png", ".webp", ".bmp"})


def images(folder: Path) -> list[Path]:
    """The image files of one folder, by their names, sorted."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def classes(root: Path) -> dict[str, list[Path]]:
    """Images of each class of the tree, classes in sorted order: the n-th has label n.

    Raises DataError where there is no tree or it holds no image.
    """
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; expected one with a folder of images a class")
    found = {folder.name: images(folder) for folder in sorted(root.iterdir()) if folder.is_dir()}
    found = {name: paths for name, paths in found.items() if paths}
    if not found:
        endings = ", ".join(sorted(SUFFIXES))
        raise DataError(f"{root}: expected a folder a class with images ({endings}), found none")
    return found
