"""Shards of a folder, in the order of their numbers."""

import re
from pathlib import Path

from im2rec_tools.errors import DataError

# As TensorFlow names them: train-00000-of-01024.
_NUMBERED = re.compile(r"(?P<set>.+)-[0-9]{4,}-of-[0-9]{4,}(\.tfrecords?)?")


def numbers_last(path: Path) -> list[tuple[int, int | str]]:
    """A sort key that puts train_10 after train_9."""
    parts = re.split("([0-9]+)", path.name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def recs(path: Path) -> list[Path]:
    """The .rec itself, or those of a folder; DataError where there is none."""
    if path.is_dir():
        found = sorted(path.glob("*.rec"), key=numbers_last)
        if not found:
            raise DataError(f"{path}: expected .rec files, found none")
        return found
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder; expected a .rec or a folder of them")
    return [path]


def sets(folder: Path) -> dict[str, list[Path]]:
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
