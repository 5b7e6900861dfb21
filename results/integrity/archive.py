"""Archives: a run as one .zip, unpacked without trusting its contents."""

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

from bench.errors import brief, error_line, quoted
from im2rec_tools.errors import DataError
from im2rec_tools.files import atomic_file, atomic_folder, check_space, format_size
from results.errors import StoreError
from results.run_folder import ASKED, MARKS, PREDICTIONS, RECORDS, REPORT, is_run
from results.store import check_name, how_to_end, writing_process

SUFFIX = ".zip"
# The largest expected run has about 2 GB of records and as much of logs.
MOST_BYTES = 32 << 30
_MOST_FILES = 2_000_000
# Records of identical windows compress 136-fold, measured ones 9-fold; large logs are compressed
# before they are archived.
MOST_RATIO, RATIO_BYTES = 200, 100 << 20
# Entries that macOS adds to archives.
_FOREIGN = ("__MACOSX", ".DS_Store")
_ENCRYPTED = 0x1
_COPY_ARCHIVE = "Copy the .zip to a folder of your own"
_SCRATCH_PREFIX = "mxscale-scratch-"


def pack(folder: Path, to: Path) -> int:
    """Pack a run's files, without links and locks; return their number.

    Raises StoreError if a sweep is writing to the run, or if `to` exists or cannot be written.
    """
    check_name(folder)
    if not is_run(folder):
        raise StoreError(
            error_line(folder, expected=f"a run, with {RECORDS} or {ASKED}", problem="has neither")
        )
    if process := writing_process(folder):
        problem = f"a sweep (process {process}) is writing to it"
        raise StoreError(error_line(folder, problem=problem, fix=how_to_end(process)))
    if to.exists():
        fix = "Choose another name with --to FILE.zip"
        raise StoreError(error_line(to, problem="already exists", fix=fix))
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
        raise StoreError(error_line(to, problem=f"cannot be written ({error})")) from error
    return count


def unpack(archive: Path, into: Path, name: str = "", report: bool = True) -> Path:
    """Unpack a run into the folder `into` under `name` or its own; return its path.

    Without the report if that is not wanted, except for the predictions, which are data.

    Raises StoreError, and leaves nothing behind, if the archive does not hold exactly one run, is
    damaged or too large, would write outside the run, or if a run of that name exists.
    """
    with _read(archive) as packed:
        inside, files = _checked(archive, packed)
        if not report:
            files = [one for one in files if _is_data(one, inside)]
        run = into / (name or inside.name or archive.stem)
        check_name(run)
        if run.exists():
            fix = "Unpack under another name with --run NAME"
            raise StoreError(error_line(run, problem="already exists", fix=fix))
        check_space(into, sum(one.file_size for one in files), "Unpack it on another disk")
        with atomic_folder(run) as part:
            for one in files:
                _extract(packed, one, part / PurePosixPath(one.filename).relative_to(inside))
    return run


@contextmanager
def _read(archive: Path) -> Iterator[ZipFile]:
    """Open the archive; StoreError if it is missing, damaged or not a .zip."""
    try:
        with ZipFile(archive) as packed:
            yield packed
    except FileNotFoundError as error:
        raise StoreError(
            error_line(
                archive, problem="no such file", fix="Give the path of a file of 'fab results.pack'"
            )
        ) from error
    except (BadZipFile, LargeZipFile, zlib.error, EOFError) as error:
        problem = f"damaged or incomplete ({brief(error)})"
        raise StoreError(
            error_line(
                archive,
                expected="a .zip file",
                problem=problem,
                fix="Copy it again, or pack the run again with 'fab results.pack'",
            )
        ) from error
    except (NotImplementedError, RuntimeError) as error:
        problem = f"unsupported compression or encryption ({brief(error)})"
        raise StoreError(
            error_line(archive, problem=problem, fix="Pack the run again with 'fab results.pack'")
        ) from error
    except (OSError, ValueError) as error:
        raise StoreError(
            error_line(
                archive,
                problem=f"cannot be unpacked ({brief(error)})",
                fix="Check the free disk space, or copy the archive again",
            )
        ) from error


def _checked(archive: Path, packed: ZipFile) -> tuple[PurePosixPath, list[ZipInfo]]:
    """Return the folder of the one run in an archive, and its files."""
    files = []
    for one in packed.infolist():
        if why := _unsafe(one):
            problem = f"{quoted(one.filename)} {why}; nothing was unpacked"
            raise StoreError(
                error_line(
                    archive, problem=problem, fix="Pack the run again with 'fab results.pack'"
                )
            )
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
        raise StoreError(
            error_line(
                archive,
                expected="one run, packed by 'fab results.pack'",
                got=f"{len(runs)} runs ({named}, ...)" if runs else "no run",
            )
        )
    (run,) = runs
    return run, [one for one in files if _is_below(one, run)]


def _is_below(one: ZipInfo, folder: PurePosixPath) -> bool:
    return PurePosixPath(one.filename).is_relative_to(folder)


def _is_data(one: ZipInfo, run: PurePosixPath) -> bool:
    """Return whether a run's file is none of its report, or has predictions."""
    report = run / REPORT
    return not _is_below(one, report) or PurePosixPath(one.filename) == report / PREDICTIONS


def _unsafe(one: ZipInfo) -> str:
    """Return the reason to reject an archive entry; empty if it is safe."""
    path, mode = PurePosixPath(one.filename), one.external_attr >> 16
    odd = set("\\\0:") & set(one.orig_filename)
    if path.is_absolute() or ".." in path.parts or odd:
        return "would be written outside the run"
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "is a link or a special file"
    return "is encrypted" if one.flag_bits & _ENCRYPTED else ""


def _check_size(archive: Path, files: Sequence[ZipInfo]) -> None:
    total, packed = sum(one.file_size for one in files), sum(one.compress_size for one in files)
    if len(files) > _MOST_FILES or total > MOST_BYTES:
        problem = f"would unpack to {format_size(total)} in {len(files)} files"
        limits = f"at most {format_size(MOST_BYTES)} in {_MOST_FILES} files"
        raise StoreError(
            error_line(
                archive,
                expected=limits,
                problem=problem,
                fix="Unpack it with another program if you trust its source",
            )
        )
    if total > RATIO_BYTES and total > MOST_RATIO * packed:
        problem = f"{format_size(packed)} would unpack to {format_size(total)}"
        ratio = f"a compression ratio of at most {MOST_RATIO}"
        raise StoreError(
            error_line(
                archive,
                expected=ratio,
                problem=problem,
                fix="Get the archive from a source that you trust",
            )
        )
    names = [one.filename for one in files]
    if len(set(names)) < len(names):
        problem = "several files have the same name; nothing was unpacked"
        raise StoreError(
            error_line(archive, problem=problem, fix="Pack the run again with 'fab results.pack'")
        )


def _extract(packed: ZipFile, one: ZipInfo, to: Path) -> None:
    """Write one file, at most of its declared size, with its modification time."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with packed.open(one) as source, to.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    with suppress(OverflowError, ValueError):  # not a valid time
        when = time.mktime((*one.date_time, 0, 0, -1))
        os.utime(to, (when, when))


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder, removed at the end, as are those of killed processes."""
    _remove_abandoned()
    try:
        folder, descriptor = _new_folder()
    except OSError as error:
        raise StoreError(
            error_line(
                "temporary folder",
                problem=f"cannot be written ({error.strerror})",
                fix="Free disk space, or set TMPDIR to another folder",
            )
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _new_folder() -> tuple[Path, int]:
    """Create a folder and lock it; retry if another process removed it as abandoned."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX))
        descriptor = _lock_folder(folder)
        if descriptor is not None:
            return folder, descriptor


def _lock_folder(folder: Path) -> int | None:
    """Lock a folder; return its descriptor, or None if it is gone, a link or locked."""
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
    """Unpack a .zip into a temporary folder that lasts until the program ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    return unpack(archive, stack.enter_context(scratch()))


@contextmanager
def report_beside(archive: Path, folder: Path) -> Iterator[None]:
    """Redirect the report of a packed run next to its .zip: demo.zip, demo-report/."""
    beside = archive.absolute().with_name(f"{archive.stem}-report")
    try:
        beside.mkdir(mode=0o755, exist_ok=True)
        descriptor = os.open(beside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise StoreError(
            error_line(
                beside, expected=f"a folder for the report ({error.strerror})", fix=_COPY_ARCHIVE
            )
        ) from error
    try:
        _check_own(beside, descriptor)
        shutil.rmtree(folder / REPORT, ignore_errors=True)
        # By descriptor: the owner of the parent folder could put a link in its place.
        (folder / REPORT).symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
        yield
    finally:
        os.close(descriptor)


def _check_own(folder: Path, descriptor: int) -> None:
    """Raise StoreError if another user owns the folder or others can write to it."""
    found = os.fstat(descriptor)
    if found.st_uid not in {0, os.geteuid()}:
        problem = f"belongs to another user (uid {found.st_uid})"
        raise StoreError(error_line(folder, problem=problem, fix=_COPY_ARCHIVE))
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        problem = f"other users can write to it (mode {stat.S_IMODE(found.st_mode):o})"
        raise StoreError(error_line(folder, problem=problem, fix=f"Run 'chmod go-w {folder}'"))
