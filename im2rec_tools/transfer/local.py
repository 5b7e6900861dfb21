"""Files of this machine: file:// URLs."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import atomic_file
from im2rec_tools.transfer.sources import MissingFileError, RemoteFile, changed
from im2rec_tools.transfer.urls import Url

_CHUNK = 1 << 20
_CHECK = "Check the URL"


class LocalSource:
    """Files by their paths."""

    def describe(self, url: Url) -> RemoteFile:
        """Return size and validator of a regular file. Raises DataError."""
        try:
            found = Path(url.path).stat()
        except FileNotFoundError:
            raise MissingFileError(error_line(url, problem="no such file", fix=_CHECK)) from None
        except OSError as error:
            raise _unreadable(url, error) from error
        if not stat.S_ISREG(found.st_mode):
            raise DataError(
                error_line(url, expected="a regular file", got="something else", fix=_CHECK)
            )
        return RemoteFile(url=url, size=found.st_size, validator=_validator(found))

    def read(self, file: RemoteFile, start: int, stop: int | None) -> Iterator[bytes]:
        """Yield the bytes from start to stop. Raises ChangedFileError and DataError."""
        end = file.size if stop is None else stop
        assert end is not None  # every local file has a size
        try:
            # Without O_NONBLOCK, opening a named pipe in place of the file would block.
            descriptor = os.open(file.url.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as opened:
                while start < end:
                    data = os.pread(opened.fileno(), min(_CHUNK, end - start), start)
                    if not data or _validator(os.fstat(opened.fileno())) != file.validator:
                        raise changed(file.url)
                    start += len(data)
                    yield data
        except OSError as error:
            raise _unreadable(file.url, error) from error

    def names(self, url: Url) -> list[str]:
        """Return the names of the visible files below a folder. Raises DataError."""
        root = Path(url.path)
        if not root.is_dir():
            raise MissingFileError(error_line(url, problem="no such folder", fix=_CHECK))
        found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        return sorted(str(path) for path in found if not any(p[0] == "." for p in path.parts))

    def put(self, path: Path, url: Url) -> None:
        """Write a local file to a URL. Raises DataError."""
        with path.open("rb") as given, atomic_file(Path(url.path)) as file:
            shutil.copyfileobj(given, file, _CHUNK)


def _validator(found: os.stat_result) -> str:
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def _unreadable(url: Url, error: OSError) -> DataError:
    return DataError(error_line(url, problem=f"cannot be read ({error.strerror})"))
