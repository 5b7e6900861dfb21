"""Atomic files and folders, locks, checks of free space."""

import ctypes
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from im2rec_tools.errors import DataError, error_line

_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r"}
_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"})


def part_of(path: Path) -> Path:
    """Return the temporary name of a file or folder until it is complete."""
    return path.with_name(f".{path.name}.part")


def create(path: Path, mode: int = 0o666) -> IO[bytes]:
    """Create a file to write; replace an existing file or link, never follow it."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, mode), "wb")


def create_folder(path: Path) -> None:
    """Create an empty folder; replace an existing one, never follow a link."""
    remove(path)
    path.mkdir(parents=True)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flush(file: IO[bytes]) -> None:
    """Wait until the data written to a file are on disk."""
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
    """Sync a folder's whole file system: faster than fsync of thousands of files."""
    libc = ctypes.CDLL(None, use_errno=True)
    with _opened(folder) as descriptor:
        if libc.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its name, on disk, when the block succeeds.

    The file is removed if the block fails. A device or a pipe, such as /dev/stdout, is written
    to, not replaced.
    """
    sibling = part_of(path)  # an old one is overwritten
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
        raise DataError(
            error_line(path, problem=f"cannot be written ({error.strerror or error})")
        ) from error


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Make an empty folder that takes the name `path` when the block succeeds.

    The folder and its contents are on disk then. It is removed if the block fails.
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
        with suppress(OSError):  # another user may own the files
            remove(part)
        raise


def copy(source: Path, target: Path) -> None:
    """Copy a file and sync it; replace an existing target, never follow a link."""
    with source.open("rb") as given, create(target) as file:
        shutil.copyfileobj(given, file, 1 << 20)
        flush(file)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_file(path) as file:
        file.write(text.encode(errors="backslashreplace"))


@contextmanager
def lock(folder: Path, fix: str = "") -> Iterator[None]:
    """Lock a folder against other runs; raise DataError if it is locked.

    A missing folder is created, and removed again if it stays empty. `fix` ends the error of a
    folder that cannot be written.
    """
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise DataError(
            error_line(folder, problem=f"cannot be written ({error.strerror})", fix=fix)
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise DataError(
            error_line(
                folder, problem="another run is writing to this folder", fix="Wait for it to end"
            )
        ) from error
    finally:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        os.close(descriptor)


def nearest_existing(path: Path) -> Path:
    """Return the path itself, or the nearest parent, that is a folder."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.is_dir())


def free_space(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, which need not exist yet."""
    return shutil.disk_usage(nearest_existing(folder)).free


def check_space(folder: Path, needed: int, fix: str) -> None:
    """Raise DataError if a folder's disk has less than `needed` bytes free.

    fix: the last sentence of the error, without a period.
    """
    free = free_space(folder)
    if free < needed:
        raise DataError(
            error_line(
                folder,
                expected=f"about {format_size(needed)} of free disk space",
                got=format_size(free),
                fix=fix,
            )
        )


def format_size(count: float) -> str:
    """Format a number of bytes with a decimal unit: 12.3 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def tsv_line(*cells: object) -> str:
    """Return a line of a .tsv; tabs and line ends in cells are escaped."""
    return "\t".join(str(cell).translate(_ESCAPES) for cell in cells) + "\n"


def tsv_cells(line: str) -> list[str]:
    """Return the cells of a line of a .tsv; the inverse of `tsv_line`."""

    def plain(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _CONTROLS.get(code, code)

    return [_ESCAPED.sub(plain, cell) for cell in line.removesuffix("\n").split("\t")]
