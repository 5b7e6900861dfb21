"""Scratch folders: in the temporary folder, held by their process and removed when it ends."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from results.errors import StoreError

_PREFIX = "mxscale-scratch-"


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is removed with the block; those of processes that were killed go first."""
    _remove_abandoned()
    try:
        folder, descriptor = _made()
    except OSError as error:
        raise StoreError(
            f"the temporary folder: nothing can be written there ({error.strerror}); make room, or "
            f"name another with TMPDIR"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _made() -> tuple[Path, int]:
    """A new folder and what holds it; anew where another process took it for abandoned."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        descriptor = _held(folder)
        if descriptor is not None:
            return folder, descriptor


def _held(folder: Path) -> int | None:
    """A descriptor that holds a folder; None where it is gone, a link or another process's."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found, there = os.fstat(descriptor), folder.lstat()
        if found.st_ino == there.st_ino and found.st_uid == os.geteuid():
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove_abandoned() -> None:
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            descriptor = _held(folder)
            if descriptor is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)
