"""Runs that are read from where they lie: a folder, or a .zip that is unpacked for as long."""

import atexit
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from results.errors import StoreError
from tasks.scratch import scratch


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
