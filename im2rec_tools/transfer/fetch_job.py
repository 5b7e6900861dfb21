"""Fetch of the files that URLs stand for into a folder."""

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from google_crc32c import extend

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import check_space, format_size, lock, part_of
from im2rec_tools.packing import manifest
from im2rec_tools.progress import Progress, Update
from im2rec_tools.transfer.download import (
    Download,
    DownloadState,
    Record,
    Retries,
    download,
)
from im2rec_tools.transfer.file_list import (
    WantedFile,
    read_checksums,
    share,
    wanted_files,
)
from im2rec_tools.transfer.ledger import Ledger
from im2rec_tools.transfer.partial import PIECE
from im2rec_tools.transfer.sources import DeniedError, MissingFileError, RemoteFile, Sources
from im2rec_tools.transfer.threads import for_each
from im2rec_tools.transfer.urls import Url

_MB = 10**6
_CHECK_LIST = "Check the list, then run the same command again"
_RETRIES = Retries()


@dataclass(frozen=True, kw_only=True)
class FetchJob:
    """What to fetch, and where to.

    part       number of the share from 1, and of shares; (1, 1) is everything
    checksums  path or URL of a list of checksums; empty without one
    jobs       connections at the same time
    piece      bytes of a file that one request asks for
    others     files of other shares: removed if a fetch wrote them, else an error
    """

    urls: tuple[Url, ...]
    folder: Path
    part: tuple[int, int] = (1, 1)
    checksums: str = ""
    jobs: int = 8
    piece: int = PIECE
    retries: Retries = _RETRIES
    others: tuple[str, ...] = ()


def wanted(job: FetchJob, sources: Sources) -> list[WantedFile]:
    """Return the files of the job's share. Raises DataError."""
    checksums = read_checksums(job.checksums, sources) if job.checksums else None
    return share(wanted_files(job.urls, checksums, sources), *job.part)


def fetch(job: FetchJob) -> Iterator[Update]:
    """Fetch the files that the folder lacks; the last update is a line of totals.

    One failed file ends no other; DataError at the end names all. The next run continues.
    """
    with Sources() as sources:
        yield from fetch_files(wanted(job, sources), sources, job)


def fetch_files(files: Sequence[WantedFile], sources: Sources, job: FetchJob) -> Iterator[Update]:
    """Fetch these files in place of those of the job's URLs; else as `fetch`."""
    found = dict[str, RemoteFile]()
    yield from _described(files, sources, job, found)
    files = [one for one in files if one.name in found]
    with lock(job.folder):
        ledger = Ledger(job.folder)
        _remove_others(job, ledger)
        left = [one for one in files if not _is_there(job.folder, one, found, ledger)]
        with ledger.opened():
            yield from _fetch_files(job, left, found, sources, ledger)
    size = sum((job.folder / one.name).stat().st_size for one in files)
    checked = sum(
        bool(found[one.name].crc32c or _digests(job.folder / one.name, one)) for one in files
    )
    yield (
        f"{len(files)} files, {format_size(size)} in {job.folder}: {len(left)} fetched, "
        f"{checked} with checksums"
    )


def _described(
    files: Sequence[WantedFile], sources: Sources, job: FetchJob, found: dict[str, RemoteFile]
) -> Iterator[Progress]:
    """Ask for size and validator of every file; fill `found` by name.

    Raises DataError with all files that the sources lack.
    """
    errors: dict[str, DataError] = {}
    stop = threading.Event()

    def ask(one: WantedFile) -> None:
        try:
            remote = job.retries.run(partial(sources.describe, one.url), stop)
        except (MissingFileError, DeniedError) as error:
            # Stores deny a missing file, too, if their list of files is denied.
            if not one.optional:
                errors[one.name] = error
            return
        except DataError as error:
            errors[one.name] = error
            return
        if one.listed.size is not None and remote.size not in {None, one.listed.size}:
            expected = f"{one.listed.size} bytes, as listed"
            errors[one.name] = DataError(
                error_line(one.url, expected=expected, got=remote.size, fix=_CHECK_LIST)
            )
        found[one.name] = remote

    for _ in for_each(ask, files, min(job.jobs, len(files)), stop):
        yield Progress(step="checking", done=len(found), total=len(files), unit="files")
    _raise(errors, len(files))


def _remove_others(job: FetchJob, ledger: Ledger) -> None:
    """Remove files of other shares that a fetch wrote; DataError for others."""
    for name in job.others:
        path = job.folder / name
        _check_inside(job.folder, path)
        if ledger.is_own(name):
            path.unlink()
        elif path.is_symlink() or path.exists():
            problem, fix = "is not of this share, and no fetch wrote it", "Move it away"
            raise DataError(error_line(path, problem=problem, fix=fix))


def _check_inside(folder: Path, path: Path) -> None:
    if not path.parent.resolve().is_relative_to(folder.resolve()):
        fix = "Remove the link"
        raise DataError(error_line(path, problem="a link leads out of the folder", fix=fix))


def _is_there(folder: Path, one: WantedFile, found: dict[str, RemoteFile], ledger: Ledger) -> bool:
    """Return whether the folder has the file already; DataError if it has another one."""
    path, remote = folder / one.name, found[one.name]
    _check_inside(folder, path)
    if not path.is_symlink() and not path.exists():
        return False
    crc = one.listed.digests.get("crc32c", "")
    if ledger.is_current(one.name, remote) and crc in {"", ledger.crc32c(one.name)}:
        return True
    if ledger.is_own(one.name):
        return False  # the source changed
    if path.is_file() and not path.is_symlink() and crc and path.stat().st_size == remote.size:
        with path.open("rb") as file:
            own = 0
            while data := file.read(1 << 20):
                own = extend(own, data)
        if f"{own:08x}" == crc:
            ledger.add(one.name, remote, crc, path.stat())
            return True
    raise DataError(
        error_line(
            path,
            expected=f"the file of {one.url}, or none",
            got="another file",
            fix="Move it away, or fetch to another folder",
        )
    )


def _fetch_files(
    job: FetchJob,
    files: Sequence[WantedFile],
    found: dict[str, RemoteFile],
    sources: Sources,
    ledger: Ledger,
) -> Iterator[Update]:
    """Download files, shards last, because their manifests have their checksums."""
    sizes = [found[one.name].size or 0 for one in files]
    fix = "Free some, or fetch to another disk"
    check_space(job.folder, sum(sizes) - _partial_bytes(job.folder, files), fix)
    failed: dict[str, DataError] = {}
    before = 0

    def record(done: Download, crc: str, state: os.stat_result) -> None:
        ledger.add(str(done.path.relative_to(job.folder)), done.remote, crc, state)

    for shards in (False, True):
        now = [one for one in files if one.name.endswith(".rec") == shards]
        downloads = [_download_of(job.folder, one, found[one.name]) for one in now]
        fetched = DownloadState()
        for fetched in _with_second_try(downloads, sources, job, record):
            done = min(before + fetched.done, sum(sizes))
            yield Progress(
                step="fetching", done=done // _MB, total=-(-sum(sizes) // _MB), unit="MB"
            )
        before += fetched.done
        failed |= {str(path): error for path, error in fetched.failed.items()}
    _raise(failed, len(files))


def _partial_bytes(folder: Path, files: Sequence[WantedFile]) -> int:
    """Return the bytes on disk of files that are not complete."""
    parts = [part_of(folder / one.name) for one in files]
    return sum(part.lstat().st_blocks * 512 for part in parts if part.is_file())


def _download_of(folder: Path, one: WantedFile, remote: RemoteFile) -> Download:
    path = folder / one.name
    return Download(remote=remote, path=path, digests=_digests(path, one))


def _digests(path: Path, one: WantedFile) -> dict[str, str]:
    """Return the expected digests of a file: listed, or in the manifest of a shard."""
    made = manifest.read(path) if path.suffix == ".rec" else None
    return {**({"crc32c": made.crc32c} if made else {}), **one.listed.digests}


def _with_second_try(
    files: Sequence[Download], sources: Sources, job: FetchJob, record: Record
) -> Iterator[DownloadState]:
    """Download files, and those that changed during the download a second time."""
    run = partial(
        download,
        sources=sources,
        jobs=job.jobs,
        retries=job.retries,
        piece=job.piece,
        record=record,
    )
    first = DownloadState()
    for first in run(files):
        yield first
    if not first.again:
        return
    again = []
    for one in first.again:
        try:
            again.append(replace(one, remote=sources.describe(one.remote.url)))
        except DataError as error:
            first.failed[one.path] = error
    second = DownloadState()
    for second in run(again):
        yield second
    for one in second.again:
        problem = "changes while it is fetched"
        line = error_line(one.remote.url, problem=problem, fix="Fetch it when it is complete")
        second.failed[one.path] = DataError(line)
    yield DownloadState(done=first.done + second.done, failed=first.failed | second.failed)


def _raise(errors: dict[str, DataError], count: int) -> None:
    """Raise one DataError with the lines of all errors, if there are any."""
    if not errors:
        return
    lines = [str(errors[name]) for name in sorted(errors)]
    if len(lines) == 1:
        raise errors.popitem()[1]
    head = f"{len(lines)} of {count} files"
    raise DataError(error_line(head, problem="not fetched", fix="Each has a line below"), *lines)
