"""Labeled trees (one folder of images per class) and folders of shards."""

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from im2rec_tools.errors import DataError, error_line

# TensorFlow's names: train-00000-of-01024.
_NUMBERED = re.compile(r"(?P<set>.+)-[0-9]{4,}-of-[0-9]{4,}(\.tfrecords?)?")
# No control characters, no bytes outside UTF-8.
_LISTABLE = re.compile("[^\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]*")
_PARTS = ("train", "val")
# Lists the files of a share of a data set, on a host.
SHARE_FILE = "share.json"
SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def numbers_last(path: Path) -> list[tuple[int, int | str]]:
    """Return a sort key that puts train_10 after train_9."""
    parts = re.split("([0-9]+)", path.name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def prepared_parts(path: Path) -> dict[str, Path]:
    """Return the folders `train` and `val` of a prepared folder, those with shards.

    Empty for other paths, such as a folder that has shards itself.
    """
    if not path.is_dir() or any(path.glob("*.rec")):
        return {}
    return {name: path / name for name in _PARTS if any((path / name).glob("*.rec"))}


def lost_record_file(folder: Path) -> str:
    """Return the error of a .rec file that is missing beside its files; '' if none is."""
    names = {one.name for one in folder.iterdir()}
    if SHARE_FILE in names:
        return ""  # it lists the files, and another check compares them
    beside = [one for name in ("*.idx", "*.json") for one in folder.glob(name)]
    for other in sorted(beside, key=numbers_last):
        rec = other.with_suffix(".rec")
        if rec.name in names:
            continue
        # A file in progress has this name within its own.
        if not any(rec.name in name for name in names) and _is_of_shard(other):
            problem = f"missing, but {other.name} exists"
            fix = "Copy or pack it again, or remove the files beside it"
            return error_line(rec, problem=problem, fix=fix)
    return ""


def _is_of_shard(path: Path) -> bool:
    """Return whether a file is an index, or the manifest of a shard."""
    try:
        return path.suffix == ".idx" or b'"records_crc32c"' in path.read_bytes()
    except OSError:
        return False


def record_files(path: Path) -> list[Path]:
    """Return the .rec file, or those of a folder; raise DataError for none."""
    if path.is_dir():
        found = sorted(path.glob("*.rec"), key=numbers_last)
        if found and (lost := lost_record_file(path)):
            raise DataError(lost)
        parts = prepared_parts(path)
        if not found and parts:
            raise DataError(
                error_line(
                    path,
                    expected=".rec files",
                    got=f"a prepared folder ({', '.join(parts)})",
                    fix=f"Give {' or '.join(map(str, parts.values()))}",
                )
            )
        if not found:
            raise DataError(
                error_line(
                    path,
                    expected=".rec files",
                    got="none",
                    fix="Make them with 'fab data.prepare DIR'",
                )
            )
        return found
    if not path.is_file():
        raise DataError(
            error_line(
                path, problem="no such file or folder", fix="Give a .rec file, or a folder of them"
            )
        )
    return [path]


def shard_sets(folder: Path) -> dict[str, list[Path]]:
    """Return the shards of each set: names before _NUMBER.rec or -N-of-M."""
    if not folder.is_dir():
        raise DataError(error_line(folder, problem="no such folder", fix="Give a folder of shards"))
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
    """Parse file extensions: '.jpg,.png'."""
    found = tuple(one.strip().lower() for one in text.split(","))
    if not all(re.fullmatch(r"\.[^./\\]+", one) for one in found):
        raise DataError(
            error_line(called, expected="extensions such as .jpg,.png", got=f"{text!r}")
        )
    return found


def is_image(name: str, endings: Collection[str] = SUFFIXES) -> bool:
    """Return whether a file has an image's extension and is not hidden."""
    return os.path.splitext(name)[1].lower() in endings and not name.startswith(".")  # noqa: PTH122


def listable_path(path: str) -> str:
    """Return the path; raise DataError if a line of a list cannot contain it."""
    if not _LISTABLE.fullmatch(path) or path != path.strip():
        raise DataError(
            error_line(
                f"{path!a}",
                problem=(
                    "expected a name without control characters, bytes outside UTF-8, or spaces at "
                    "its ends; image lists cannot contain them"
                ),
                fix="Rename the file",
            )
        )
    return path


def walk(root: Path, endings: Collection[str] = SUFFIXES) -> Iterator[tuple[str, list[str]]]:
    """Yield folders below a root with the sorted names of their images, parents first.

    A folder's name is its path relative to the root, '.' for the root itself. The order is
    upstream's. The function skips hidden folders, and links to a folder above them.
    """
    if not root.is_dir():
        raise DataError(
            error_line(
                root,
                problem="no such folder",
                fix="Give a folder with one folder of images per class",
            )
        )
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
        raise DataError(error_line(folder, problem=f"cannot be read ({error.strerror})")) from error


def _is_file(entry: os.DirEntry[str], endings: frozenset[str]) -> bool:
    """Return whether it is an image file or a link to one, as upstream does."""
    try:
        return is_image(entry.name, endings) and entry.is_file()
    except OSError:
        return False  # a link that leads to itself


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.name.startswith(".") and entry.is_dir()
    except OSError:
        return False  # a link that leads to itself


def without_images(root: Path) -> tuple[list[str], list[str]]:
    """Return the class folders without images, and the other files of those with some.

    Both are paths relative to the root, in sorted order, without hidden ones.
    """
    empty, others = list[str](), list[str]()
    images = frozenset(SUFFIXES)
    for folder in sorted(entry.name for entry in _entries(str(root)) if _is_folder(entry)):
        found = [entry for entry in _entries(f"{root}/{folder}") if not entry.name.startswith(".")]
        if not any(_is_file(entry, images) for entry in found):
            empty.append(folder)
        others += sorted(
            f"{folder}/{entry.name}"
            for entry in found
            if not (_is_folder(entry) or _is_file(entry, images))
        )
    return empty, others


def classes(root: Path) -> dict[str, list[str]]:
    """Return the sorted names of each class's images, classes in sorted order.

    Raises DataError if there is no tree or no class with images.
    """
    found = {name: images for name, images in walk(root) if "/" not in name and name != "."}
    if not found:
        endings = ", ".join(SUFFIXES)
        raise DataError(
            error_line(root, expected=f"one folder of images per class ({endings})", got="none")
        )
    return found


def sizes(root: Path) -> dict[str, int]:
    """Return the number of images of each class of a tree."""
    return {name: len(images) for name, images in classes(root).items()}
