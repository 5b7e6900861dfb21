"""A run as one .zip; unpacking trusts nothing that the archive says."""

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, LargeZipFile, ZipFile, ZipInfo

from bench.errors import quoted
from im2rec_tools.errors import DataError, brief
from im2rec_tools.files import atomic_file, atomic_folder, check_space, format_size
from results.errors import StoreError
from results.run_folder import ASKED, MARKS, RECORDS, REPORT, is_run
from results.store import check_name, writing_process

SUFFIX = ".zip"
# The largest store that is meant has some 2 GB of records, and logs of as much.
MOST_BYTES = 32 << 30
_MOST_FILES = 2_000_000
# Records of windows that are all the same were packed 136-fold, measured ones 9-fold; large logs
# are packed before they come into an archive.
MOST_RATIO, RATIO_BYTES = 200, 100 << 20
# What the archivers of macOS put beside what they were given.
_FOREIGN = ("__MACOSX", ".DS_Store")
_ENCRYPTED = 0x1
_SCRATCH_PREFIX = "mxscale-scratch-"


def pack(folder: Path, to: Path) -> int:
    """Packs a run's files, without links and locks, below its name; returns how many there are.

    Raises StoreError where a sweep writes there, `to` is there already or cannot be written.
    """
    check_name(folder)
    if not is_run(folder):
        raise StoreError(f"{folder}: is no run: it has neither {RECORDS} nor {ASKED}")
    if process := writing_process(folder):
        raise StoreError(f"{folder}: a sweep (process {process}) is writing there; wait for it")
    if to.exists():
        raise StoreError(f"{to}: is there already; choose another with --to FILE.zip")
    count = 0
    try:
        with (
            atomic_file(to) as file,
            ZipFile(file, "w", ZIP_DEFLATED, strict_timestamps=False) as packed,
        ):
            for path in sorted(folder.rglob("*")):
                if path.name.startswith(".") or path.is_symlink() or not path.is_file():
                    continue
                count += 1
                name = f"{folder.resolve().name}/{path.relative_to(folder).as_posix()}"
                kind = ZIP_STORED if path.suffix in {".gz", ".png"} else ZIP_DEFLATED
                packed.write(path, name, kind)
    except DataError as error:
        raise StoreError(str(error)) from error
    except ValueError as error:
        raise StoreError(f"{to}: cannot be packed ({error})") from error
    return count


def unpack(archive: Path, into: Path, name: str = "", without: str = "") -> Path:
    """Unpacks a run into the folder `into`, there by this name or its own; returns where it is.

    A folder of the run that is called `without` stays behind.

    Raises StoreError, and leaves nothing, where the archive is not one run, is damaged, would write
    elsewhere or is too large, or where a run of that name is there.
    """
    with _read(archive) as packed:
        inside, files = _checked(archive, packed)
        if without:
            files = [one for one in files if not _is_below(one, inside / without)]
        run = into / (name or inside.name or archive.stem)
        check_name(run)
        if run.exists():
            raise StoreError(f"{run}: is there already; unpack it by another name with --run NAME")
        check_space(into, sum(one.file_size for one in files), "unpack it on another disk")
        with atomic_folder(run) as part:
            for one in files:
                _extract(packed, one, part / PurePosixPath(one.filename).relative_to(inside))
    return run


@contextmanager
def _read(archive: Path) -> Iterator[ZipFile]:
    """The archive, open; StoreError where it is none or damaged."""
    try:
        with ZipFile(archive) as packed:
            yield packed
    except FileNotFoundError as error:
        raise StoreError(f"{archive}: no such file") from error
    except (BadZipFile, LargeZipFile, zlib.error, EOFError) as error:
        raise StoreError(f"{archive}: is no whole .zip ({brief(error)})") from error
    except (NotImplementedError, RuntimeError) as error:
        raise StoreError(
            f"{archive}: is packed in a way that is not read ({brief(error)})"
        ) from error
    except (OSError, ValueError) as error:
        raise StoreError(f"{archive}: cannot be unpacked ({brief(error)})") from error


def _checked(archive: Path, packed: ZipFile) -> tuple[PurePosixPath, list[ZipInfo]]:
    """The folder of the one run in an archive, and its files."""
    files = []
    for one in packed.infolist():
        if why := _unsafe(one):
            raise StoreError(f"{archive}: {quoted(one.filename)} {why}; nothing was unpacked")
        parts = PurePosixPath(one.filename).parts
        if not one.is_dir() and parts and not set(parts) & set(_FOREIGN):
            files.append(one)
    _check_size(archive, files)
    runs = {
        PurePosixPath(one.filename).parent
        for one in files
        if PurePosixPath(one.filename).name in MARKS
    }
    if len(runs) != 1:
        named = ", ".join(sorted(map(str, runs))[:3])
        what = f"holds {len(runs)} runs ({named}, ...)" if runs else "holds no run"
        raise StoreError(f"{archive}: {what}; expected one, as 'fab results.pack' makes it")
    (run,) = runs
    return run, [one for one in files if _is_below(one, run)]


def _is_below(one: ZipInfo, folder: PurePosixPath) -> bool:
    return PurePosixPath(one.filename).is_relative_to(folder)


def _unsafe(one: ZipInfo) -> str:
    """Why an entry of an archive is not written; empty where it may be."""
    path, mode = PurePosixPath(one.filename), one.external_attr >> 16
    odd = set("\\\0:") & set(one.orig_filename)
    if path.is_absolute() or ".." in path.parts or odd:
        return "would be written elsewhere"
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "is a link or no file"
    return "is encrypted" if one.flag_bits & _ENCRYPTED else ""


def _check_size(archive: Path, files: Sequence[ZipInfo]) -> None:
    total, packed = sum(one.file_size for one in files), sum(one.compress_size for one in files)
    if len(files) > _MOST_FILES or total > MOST_BYTES:
        raise StoreError(
            f"{archive}: would unpack to {format_size(total)} in {len(files)} files; no run is as "
            f"large"
        )
    if total > RATIO_BYTES and total > MOST_RATIO * packed:
        raise StoreError(
            f"{archive}: {format_size(packed)} would unpack to {format_size(total)}; no run does"
        )
    names = [one.filename for one in files]
    if len(set(names)) < len(names):
        raise StoreError(f"{archive}: has files of the same name; nothing was unpacked")


def _extract(packed: ZipFile, one: ZipInfo, to: Path) -> None:
    """Writes one file, no more of it than it is said to have, with its time."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with packed.open(one) as source, to.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    with suppress(OverflowError, ValueError):  # a time that is none
        when = time.mktime((*one.date_time, 0, 0, -1))
        os.utime(to, (when, when))


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is removed with the block; those of processes that were killed go first."""
    _remove_abandoned()
    try:
        folder, descriptor = _new_folder()
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


def _new_folder() -> tuple[Path, int]:
    """A new folder and what holds it; anew where another process took it for abandoned."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX))
        descriptor = _lock_folder(folder)
        if descriptor is not None:
            return folder, descriptor


def _lock_folder(folder: Path) -> int | None:
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
        for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH_PREFIX}*"):
            descriptor = _lock_folder(folder)
            if descriptor is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)


def unpacked(archive: Path) -> Path:
    """The run of a .zip, in a folder of its own that goes when the program ends."""
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
        shutil.rmtree(folder / REPORT, ignore_errors=True)
        # By the descriptor: whoever owns the folder above could put a link in its place.
        (folder / REPORT).symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
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
