"""Parallel download of files in pieces, which the next run continues."""

import errno
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from google_crc32c import extend

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import format_size, free_space
from im2rec_tools.transfer.partial import PartialFile
from im2rec_tools.transfer.sources import (
    ChangedFileError,
    DamagedFileError,
    RemoteFile,
    Sources,
    UnavailableError,
    changed,
)
from im2rec_tools.transfer.threads import run

Result = TypeVar("Result")
# Called with a file, its CRC-32C in hex digits and its state just before it takes its name.
Record = Callable[["Download", str, os.stat_result], None]
_LOCK_SECONDS = 1.0
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file to download.

    digests: expected digests in hex digits, by algorithm: crc32c, md5, sha1, sha256, sha512.
    """

    remote: RemoteFile
    path: Path
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often a request is tried.

    pause_seconds: before the second try; it doubles with each.
    """

    tries: int = 4
    pause_seconds: float = 0.5

    def run(self, act: Callable[[], Result], stop: threading.Event) -> Result:
        """Return what `act` returns; call it again after errors that pass.

        Stops when `stop` is set.
        """
        pause = self.pause_seconds
        for _ in range(self.tries - 1):
            try:
                return act()
            except UnavailableError:
                if stop.wait(pause):
                    raise
                pause *= 2
        return act()


@dataclass(kw_only=True)
class DownloadState:
    """What has been downloaded so far.

    done    bytes, with those of earlier runs
    failed  error of each file that failed
    again   files that changed while they were downloaded
    """

    done: int = 0
    failed: dict[Path, DataError] = field(default_factory=dict)
    again: list[Download] = field(default_factory=list)


def download(  # noqa: PLR0913 - how to download, and what to do with what is complete
    files: Sequence[Download],
    sources: Sources,
    *,
    jobs: int,
    retries: Retries,
    piece: int,
    record: Record,
) -> Iterator[DownloadState]:
    """Download files with `jobs` connections; yield the state 4 times per second.

    One failed file ends no other. Raises DataError if files cannot be written.
    """
    pool = _Pool(files, sources, retries, piece, record)
    try:
        for _ in run(pool.work, jobs, pool.stop):
            yield pool.found
    except OSError as error:
        where = error.filename or files[0].path.parent
        fix = "Run the same command again to continue"
        problem = f"cannot be written ({error.strerror})"
        if error.errno in _FULL:
            problem = f"the disk is full, {format_size(free_space(files[0].path.parent))} are free"
            fix = f"Free some space. {fix}"
        raise DataError(error_line(where, problem=problem, fix=fix)) from error
    finally:
        pool.close()
    yield pool.found


class _Active:
    """A file of which pieces are being downloaded; `left` are not finished."""

    def __init__(self, one: Download, file: PartialFile) -> None:
        self.one, self.file = one, file
        self.left = len(file.missing)
        self.over = False


class _Pool:
    """The work of the threads: they take pieces of the files in order."""

    def __init__(
        self,
        files: Sequence[Download],
        sources: Sources,
        retries: Retries,
        piece: int,
        record: Record,
    ) -> None:
        self.found = DownloadState()
        self.stop = threading.Event()
        self._sources, self._retries, self._piece = sources, retries, piece
        self._record = record
        self._lock = threading.RLock()
        self._open: list[_Active] = []
        self._left = self._pieces(files)

    def work(self) -> None:
        """Download pieces until none is left: the work of one thread."""
        while not self.stop.is_set():
            with self._lock:
                taken = next(self._left, None)
            if taken is None:
                return
            self._piece_of(*taken)

    def close(self) -> None:
        """Close the files that are not complete, unless a thread is stuck."""
        if not self._lock.acquire(timeout=_LOCK_SECONDS):
            return
        self._left.close()
        for active in self._open:
            active.over = True
            active.file.leave()
        self._lock.release()

    def _pieces(self, files: Sequence[Download]) -> Generator[tuple[_Active, int, int | None]]:
        for one in files:
            remote, size = one.remote, one.remote.size or 0
            resumable = remote.ranges and remote.size is not None
            piece = self._piece if resumable else max(1, size)
            validator = remote.validator if resumable else ""
            active = _Active(one, PartialFile(one.path, size, validator, piece))
            self._open.append(active)
            self.found.done += active.file.finished_bytes
            if remote.size is None:
                active.left = 1
                yield active, 0, None
                continue  # its size may be known by now, and is that of the only piece
            if not active.left:
                self._complete(active)
            for start, end in active.file.missing:
                if not active.over:
                    yield active, start, end

    def _piece_of(self, active: _Active, start: int, end: int | None) -> None:
        """Download a piece; after the last one of a file, check and publish it."""
        try:
            crc, size = self._tried(partial(self._one_try, active, start, end))
            with self._lock:
                if active.over or self.stop.is_set():
                    return
                if end is None:
                    active.file.end(size, crc)
                else:
                    active.file.finish(start, crc)
                active.left -= 1
                last = not active.left
        except DataError as error:
            self._give_up(active, error)
        else:
            if last:
                self._complete(active)

    def _tried(self, act: Callable[[], Result]) -> Result:
        return self._retries.run(act, self.stop)

    def _one_try(self, active: _Active, start: int, end: int | None) -> tuple[int, int]:
        remote, at, crc = active.one.remote, start, 0
        try:
            for data in self._sources.of(remote.url).read(remote, start, end):
                if self.stop.is_set() or active.over:
                    break
                active.file.write(data, at)
                crc, at = extend(crc, data), at + len(data)
                self._count(len(data))
        except BaseException:
            self._count(start - at)
            raise
        return crc, at - start

    def _count(self, size: int) -> None:
        with self._lock:
            self.found.done += size

    def _complete(self, active: _Active) -> None:
        """Check a file and give it its name, or record why it failed."""
        one, file = active.one, active.file
        try:
            now = self._tried(partial(self._sources.describe, one.remote.url))
            if (now.size, now.validator) != (one.remote.size, one.remote.validator):
                raise changed(one.remote.url)
            _check_digests(one, file)
        except DataError as error:
            self._give_up(active, error)
            return
        self._record(one, file.digest("crc32c"), file.flush())
        file.publish()
        with self._lock:
            active.over = True
            self._open.remove(active)

    def _give_up(self, active: _Active, error: DataError) -> None:
        """Record why a file failed; keep its pieces if a later run can continue."""
        with self._lock:
            if active.over:
                return
            active.over = True
            self._open.remove(active)
            if isinstance(error, ChangedFileError):
                self.found.again.append(active.one)
            else:
                self.found.failed[active.one.path] = error
            if isinstance(error, ChangedFileError | DamagedFileError):
                active.file.discard()
            else:
                active.file.leave()


def _check_digests(one: Download, file: PartialFile) -> None:
    """Raise DamagedFileError if a file is not the expected one."""
    own = {"crc32c": one.remote.crc32c} if one.remote.crc32c else {}
    for name, wanted in [*own.items(), *one.digests.items()]:
        found = file.digest(name)
        if found != wanted:
            raise DamagedFileError(
                error_line(
                    one.remote.url,
                    expected=f"{name} {wanted}",
                    got=found,
                    problem="the file is removed",
                    fix="Check the source, then run the same command again",
                )
            )
