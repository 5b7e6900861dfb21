"""A labelled tree: a folder with a folder of images for each class."""

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from im2rec_tools.errors import DataError

# As TensorFlow names them: train-00000-of-01024.
_NUMBERED = re.compile(r"(?P<set>.+)-[0-9]{4,}-of-[0-9]{4,}(\.tfrecords?)?")
# No control characters, and no bytes that Python could not read as UTF-8.
_LISTABLE = re.compile("[^\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]*")
SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def numbers_last(path: Path) -> list[tuple[int, int | str]]:
    """A sort key that puts train_10 after train_9."""
    parts = re.split("([0-9]+)", path.name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def record_files(path: Path) -> list[Path]:
    """The .rec itself, or those of a folder; DataError where there is none."""
    if path.is_dir():
        found = sorted(path.glob("*.rec"), key=numbers_last)
        if not found:
            raise DataError(f"{path}: expected .rec files, found none")
        return found
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder; expected a .rec or a folder of them")
    return [path]


def shard_sets(folder: Path) -> dict[str, list[Path]]:
    """Shards by the set they belong to: .rec files by the name before _NUMBER, TFRecords too."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one of shards")
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir(), key=numbers_last):
        match = _NUMBERED.fullmatch(path.name)
        if path.name.startswith(".") or not path.is_file():
            continue
        if path.suffix == ".rec":
            found.setdefault(re.sub("_[0-9]+$", "", path.stem), []).append(path)
        elif match:
            found.setdefault(match["set"], []).append(path)
    return found


def suffixes(called: str, text: str) -> tuple[str, ...]:
    """File name endings, as typed: '.jpg,.png'."""
    found = tuple(one.strip().lower() for one in text.split(","))
    if not all(re.fullmatch(r"\.[^./\\]+", one) for one in found):
        raise DataError(f"{called}: expected endings such as .jpg,.png, got {text!r}")
    return found


def is_image(name: str, endings: Collection[str] = SUFFIXES) -> bool:
    """Whether a file of this name is taken for an image; hidden ones are not."""
    return os.path.splitext(name)[1].lower() in endings and not name.startswith(".")  # noqa: PTH122


def listable_path(path: str) -> str:
    """The path, which a line of a list can hold; DataError where none can."""
    if not _LISTABLE.fullmatch(path) or path != path.strip():
        raise DataError(
            f"{path!a}: a list of images cannot hold this name (control characters, bytes that "
            f"are not UTF-8, or blanks at an end); rename it"
        )
    return path


def walk(root: Path, endings: Collection[str] = SUFFIXES) -> Iterator[tuple[str, list[str]]]:
    """Folders below a root with the sorted names of their images, a folder before those in it.

    A folder's name is its path below the root, '.' for the root itself. Sorted as upstream does;
    hidden folders and links to a folder they lie in are passed over.
    """
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; expected one with a folder of images a class")
    top, wanted = str(root), frozenset(endings)
    left: list[tuple[str, tuple[tuple[int, int], ...]]] = [(".", ())]
    while left:
        below, above = left.pop()
        folder = top if below == "." else f"{top}/{below}"
        status = os.stat(folder)  # noqa: PTH116 - one call, no objects: a tree has millions of files
        here = (status.st_dev, status.st_ino)
        if here in above:
            continue
        found = _entries(folder)
        images = sorted(entry.name for entry in found if _is_file(entry, wanted))
        if images:
            yield below, images
        folders = sorted((entry.name for entry in found if _is_folder(entry)), reverse=True)
        within = "" if below == "." else f"{below}/"
        left += [(within + name, (*above, here)) for name in folders]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror})") from error


def _is_file(entry: os.DirEntry[str], endings: frozenset[str]) -> bool:
    """Whether it is an image file, or a link to one; upstream skips what is no file too."""
    try:
        return is_image(entry.name, endings) and entry.is_file()
    except OSError:
        return False  # a link that leads to itself


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.name.startswith(".") and entry.is_dir()
    except OSError:
        return False  # a link that leads to itself


def classes(root: Path) -> dict[str, list[str]]:
    """Sorted names of the images of each class of the tree, classes in sorted order.

    Raises DataError where there is no tree or it holds no image in a class.
    """
    found = {name: images for name, images in walk(root) if "/" not in name and name != "."}
    if not found:
        endings = ", ".join(SUFFIXES)
        raise DataError(f"{root}: expected a folder a class with images ({endings}), found none")
    return found


def sizes(root: Path) -> dict[str, int]:
    """How many images each class of a tree has."""
    return {name: len(images) for name, images in classes(root).items()}
