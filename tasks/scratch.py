"""Scratch folders, removed when their process ends, and runs in .zip unpacked into them."""

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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


def is_packed(name: str) -> bool:
    """Whether what --run was given is a .zip."""
    from results.integrity.archive import SUFFIX

    return name.endswith(SUFFIX)


def unpacked(archive: Path) -> Path:
    """The run of a .zip, in a folder of its own that goes when the program ends."""
    from results.integrity.archive import unpack

    stack = ExitStack()
    atexit.register(stack.close)
    return unpack(archive, stack.enter_context(scratch()))


@contextmanager
def report_beside(archive: Path, folder: Path) -> Iterator[None]:
    """Has the report of a packed run written beside its .zip: demo.zip, demo-report/."""
    beside = archive.absolute().with_name(f"{archive.stem}-report")
    try:
        beside.mkdir(mode=0o755, exist_ok=True)
        descriptor = os.open(beside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise StoreError(
            f"{beside}: expected a folder for the report ({error.strerror}); copy the .zip to a "
            f"folder of your own"
        ) from error
    try:
        _check_own(beside, descriptor)
        shutil.rmtree(folder / "report", ignore_errors=True)
        # By the descriptor: whoever owns the folder above could put a link in its place.
        (folder / "report").symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
        yield
    finally:
        os.close(descriptor)


def _check_own(folder: Path, descriptor: int) -> None:
    """StoreError where a folder is another ordinary user's, or others may write to it."""
    found = os.fstat(descriptor)
    if found.st_uid not in {0, os.geteuid()}:
        raise StoreError(
            f"{folder}: belongs to another user (uid {found.st_uid}); copy the .zip to a folder of "
            f"your own"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError(
            f"{folder}: others may write to it (mode {stat.S_IMODE(found.st_mode):o}); "
            f"'chmod go-w {folder}' keeps them out"
        )
