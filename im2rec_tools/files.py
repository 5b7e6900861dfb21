"""Files that are there whole or not at all, and whether they will fit."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from im2rec_tools.errors import DataError


def part_of(path: Path) -> Path:
    """Where a file is written until it is whole."""
    return path.with_name(f".{path.name}.part")


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, that takes its name when the block ends well and vanishes otherwise.

    A device or a pipe, such as /dev/stdout, is written to and not replaced.
    """
    sibling = part_of(path)  # one that was left over is written anew
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not (path.is_file() or path.is_dir()):
            with path.open("wb") as file:
                yield file
            return
        with sibling.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        sibling.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            sibling.unlink()


def write_whole(path: Path, text: str) -> None:
    """Writes a text file whole."""
    with whole(path) as file:
        file.write(text.encode(errors="backslashreplace"))


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keeps other runs out of a folder; DataError where one works there already.

    A folder that was not there is made, and goes again where nothing came into it.
    """
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise DataError(f"{folder}: another run works there; wait for its end") from error
    finally:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        os.close(descriptor)


def existing(path: Path) -> Path:
    """The nearest folder above a path that is there."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.is_dir())


def check_space(folder: Path, needed: int, instead: str) -> None:
    """Raises DataError where a folder's disk has less free space than `needed` bytes."""
    free = shutil.disk_usage(existing(folder)).free
    if free < needed:
        raise DataError(
            f"{folder}: needs about {size(needed)}, its disk has {size(free)} free; {instead}"
        )


def size(count: float) -> str:
    """Bytes with a unit, in steps of a thousand."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"})


def row(*cells: object) -> str:
    """A line of a .tsv; tabs and line ends in a cell are escaped."""
    return "\t".join(str(cell).translate(_ESCAPES) for cell in cells) + "\n"
