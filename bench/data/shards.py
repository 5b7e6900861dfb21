"""The .rec files of a job: which, how many images, and where each image lies."""

from collections import Counter
from pathlib import Path
from typing import Any

from bench.errors import SpecError, brief, quoted
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import offsets_of

LIST = ".txt"
_BESIDE = (".idx", ".lst", ".json")


def split_data(data: str) -> tuple[Path, ...]:
    """The files and folders of `data`: what ';' joins; a .txt file stands for its lines."""
    found: list[Path] = []
    for part in filter(None, data.split(";")):
        path = _path(part)
        found += _lines(path) if path.suffix == LIST and not path.is_dir() else [path]
    return tuple(found)


def _lines(path: Path) -> list[Path]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SpecError(
            f"{path}: expected a list of .rec files, a path a line, and it cannot be read "
            f"({reason})"
        ) from error
    return [_path(line.strip()) for line in lines if line.strip()]


def _path(text: str) -> Path:
    """SpecError for what no file can be called, or where one may not look."""
    try:
        Path(text).stat()
    except FileNotFoundError:
        pass  # said by whoever reads it
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(
            f"{brief(text)!r}: expected a path of data, and it has {quoted(reason)}"
        ) from error
    return Path(text)


def shards(data: str) -> tuple[Path, ...]:
    """The .rec files of `data`: a file, all in a folder, several joined by ';', those of a list.

    Files of other kinds in a folder are left alone. Raises SpecError where there are none, or one
    is there twice: its images would count twice.
    """
    found: list[Path] = []
    for path in split_data(data):
        if path.suffix in _BESIDE:
            raise SpecError(f"{path}: lies beside images and holds none; name the .rec file")
        found += sorted(path.glob("*.rec")) if path.is_dir() else [path]
    if not found:
        raise SpecError(f"{data}: expected .rec files, found none; 'fab data.prepare' makes them")
    for path in found:
        if not path.is_file():
            found_there = "is no regular file" if path.exists() else "no such file"
            raise SpecError(f"{path}: {found_there}; expected a .rec made by 'fab data.prepare'")
        try:
            path.open("rb").close()
        except OSError as error:
            raise SpecError(f"{path}: cannot be read ({error.strerror})") from error
    twice = [path for path, count in Counter(path.resolve() for path in found).items() if count > 1]
    if twice:
        raise SpecError(f"{data}: names {twice[0]} more than once; name each file once")
    return tuple(found)


def count_images(paths: tuple[Path, ...]) -> int:
    """Images in all these files, each checked to be whole; SpecError names the one that is not."""
    return sum(len(_offsets(path)) for path in paths)


def places(paths: tuple[Path, ...]) -> Any:
    """Where each image lies: int64 of (images, 3), the place of its file, its offset, its bytes."""
    import numpy as np  # noqa: PLC0415 - few who name shards need it

    tables = []
    for number, path in enumerate(paths):
        offsets = np.array(_offsets(path), np.int64)
        lengths = np.diff(offsets, append=path.stat().st_size)
        tables.append(np.stack([np.full_like(offsets, number), offsets, lengths], axis=1))
    return np.concatenate(tables)


def _offsets(path: Path) -> list[int]:
    try:
        return offsets_of(path)
    except DataError as error:
        raise SpecError(str(error)) from error
