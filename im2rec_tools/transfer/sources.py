"""Sources of files by URL scheme: what they say about a file, and its bytes."""

import base64
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.transfer.urls import OBJECT_STORES, Url

_SMALL = "Give the URL of a list"


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file as its source describes it.

    size       in bytes; None if unknown
    validator  changes with the content: an ETag, a time of change; empty if there is none
    ranges     whether the source sends parts of it
    crc32c     of the content, eight hex digits; empty if the source has none
    """

    url: Url
    size: int | None
    validator: str = ""
    ranges: bool = True
    crc32c: str = ""


class MissingFileError(DataError):
    """The source has no file of this URL."""


class DeniedError(DataError):
    """The source does not show this file, or not without a login."""


class UnavailableError(DataError):
    """The source does not answer now; a later try can succeed."""


class ChangedFileError(DataError):
    """The file is not the one that was described."""


class DamagedFileError(DataError):
    """The bytes that arrived have another checksum than expected."""


def crc32c_of_base64(text: str) -> str:
    """Return the hex digits of a CRC-32C in base64; empty if it is none.

    Google Cloud Storage sends it so, most significant byte first.
    """
    return base64.b64decode(text).hex() if re.fullmatch("[A-Za-z0-9+/]{6}==", text) else ""


def changed(url: Url) -> ChangedFileError:
    """Return the error of a file that changed since it was described."""
    return ChangedFileError(
        error_line(url, problem="changed while it was fetched", fix="Fetch it again")
    )


class Source(Protocol):
    """Files of one kind of server."""

    def describe(self, url: Url) -> RemoteFile:
        """Return size and validator of a file. Raises DataError."""

    def read(self, file: RemoteFile, start: int, stop: int | None) -> Iterator[bytes]:
        """Yield the bytes from start to stop (None: to the end).

        Raises ChangedFileError if the file is no longer the described one, and DataError.
        """

    def names(self, url: Url) -> list[str]:
        """Return the names of the files below a folder, relative to it. Raises DataError."""

    def put(self, path: Path, url: Url) -> None:
        """Write a local file to a URL. Raises DataError."""


class Sources:
    """The source of every URL; `with` closes their connections."""

    def __init__(self) -> None:
        self._opened: dict[str, Source] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Sources":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, url: Url) -> Source:
        """Return the source of a URL, opened at the first use."""
        kind = "http" if url.scheme == "https" else url.scheme
        if kind not in self._opened:
            self._opened[kind] = self._open(kind)
        return self._opened[kind]

    def describe(self, url: Url) -> RemoteFile:
        """Return size and validator of a file. Raises DataError."""
        return self.of(url).describe(url)

    def _open(self, kind: str) -> Source:
        # Each imports its library.
        if kind == "http":
            from im2rec_tools.transfer.http import HttpSource  # noqa: PLC0415

            return self._stack.enter_context(HttpSource())
        if kind in OBJECT_STORES:
            from im2rec_tools.transfer.object_store import ObjectStore  # noqa: PLC0415

            return ObjectStore(kind)
        from im2rec_tools.transfer.local import LocalSource  # noqa: PLC0415

        return LocalSource()


def read_text(sources: Sources, url: Url, most: int = 1 << 26) -> str:
    """Return the text of a small file.

    Raises DataError if it is longer than `most` bytes or no UTF-8.
    """
    source = sources.of(url)
    found, data = source.describe(url), bytearray()
    for piece in source.read(found, 0, None):
        data += piece
        if len(data) > most:
            raise DataError(
                error_line(url, expected=f"at most {most} bytes", got="more", fix=_SMALL)
            )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DataError(
            error_line(url, expected="a text in UTF-8", got="other bytes", fix=_SMALL)
        ) from None
