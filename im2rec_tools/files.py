"""Files that are there whole or not at all, and whether they will fit."""

import ctypes
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from im2rec_tools.errors import DataError

_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"})


def part_of(path: Path) -> Path:
    """Where a file or folder is written until it is whole."""
    return path.with_name(f".{path.name}.part")


def create(path: Path, mode: int = 0o666) -> IO[bytes]:
    """Create a file to write. What had its name, such as a link, is removed and not followed."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, mode), "wb")


def create_folder(path: Path) -> None:
    """Create an empty folder. What had its name is removed; a link is not followed."""
    remove(path)
    path.mkdir(parents=True)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flush(file: IO[bytes]) -> None:
    """Wait until what was written to a file is on disk."""
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    with _opened(folder) as descriptor:
        os.fsync(descriptor)


def _flush_disk(folder: Path) -> None:
    """Wait until all of a folder's file system is on disk: of thousands of files this is quick."""
    libc = ctypes.CDLL(None, use_errno=True)
    with _opened(folder) as descriptor:
        if libc.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, that takes its name when the block ends well and vanishes otherwise.

    It is on disk then. A device or a pipe, such as /dev/stdout, is written to and not replaced.
    """
    sibling = part_of(path)  # one that was left over is written anew
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not (path.is_file() or path.is_dir()):
            with path.open("wb") as file:
                yield file
            return
        with _removed_on_error(sibling), create(sibling) as file:
            yield file
            flush(file)
            sibling.replace(path)
            flush_folder(path.parent)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from error


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """An empty folder, that takes the name `path` when the block ends well and vanishes otherwise.

    It is on disk then, with all that is in it.
    """
    sibling = part_of(path)
    with _removed_on_error(sibling):
        create_folder(sibling)
        yield sibling
        _flush_disk(sibling)
        sibling.replace(path)
        flush_folder(path.parent)


@contextmanager
def _removed_on_error(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):  # also what another user put there
            remove(part)
        raise


def copy(source: Path, target: Path) -> None:
    """Copy a file, on disk when this returns. What had its name is removed and not followed."""
    with source.open("rb") as given, create(target) as file:
        shutil.copyfileobj(given, file, 1 << 20)
        flush(file)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole."""
    with atomic_file(path) as file:
        file.write(text.encode(errors="backslashreplace"))


@contextmanager
def lock(folder: Path) -> Iterator[None]:
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


def nearest_existing(path: Path) -> Path:
    """The nearest folder above a path that is there."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.is_dir())


def check_space(folder: Path, needed: int, instead: str) -> None:
    """Raises DataError where a folder's disk has less free space than `needed` bytes."""
    free = shutil.disk_usage(nearest_existing(folder)).free
    if free < needed:
        raise DataError(
            f"{folder}: needs about {format_size(needed)}, its disk has {format_size(free)} free; "
            f"{instead}"
        )


def format_size(count: float) -> str:
    """Bytes with a unit, in steps of a thousand."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def tsv_line(*cells: object) -> str:
    """A line of a .tsv; tabs and line ends in a cell are escaped."""
    return "\t".join(str(cell).translate(_ESCAPES) for cell in cells) + "\n"
