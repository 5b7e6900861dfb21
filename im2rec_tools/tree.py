"""A labelled tree: a folder with a folder of images for each class."""

import re
from pathlib import Path

from im2rec_tools.errors import DataError

# No control characters, and no bytes that Python could not read as UTF-8.
_LISTABLE = re.compile("[^\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]*")
SUFFIXES = frozenset({".jpeg", ".jpg", ".png", ".webp", ".bmp"})


def _is_class(folder: Path) -> bool:
    return folder.is_dir() and not folder.name.startswith(".")


def images(folder: Path) -> list[Path]:
    """The image files of one folder, by their names, sorted."""
    found = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES]
    for path in found:
        if not _LISTABLE.fullmatch(str(path)):
            raise DataError(
                f"{str(path)!a}: a list of images cannot hold this name (control characters, or "
                f"bytes that are not UTF-8); rename it"
            )
    return sorted(found)


def classes(root: Path) -> dict[str, list[Path]]:
    """Images of each class of the tree, classes in sorted order: the n-th has label n.

    Raises DataError where there is no tree or it holds no image.
    """
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; expected one with a folder of images a class")
    found = {folder.name: images(folder) for folder in sorted(root.iterdir()) if _is_class(folder)}
    found = {name: paths for name, paths in found.items() if paths}
    if not found:
        endings = ", ".join(sorted(SUFFIXES))
        raise DataError(f"{root}: expected a folder a class with images ({endings}), found none")
    return found
