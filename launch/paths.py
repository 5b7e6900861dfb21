"""Files of a host, as a program that was sent there sees them: names are bytes.

Standard library only and Python 3.8 or newer. A host's own idea of how names are encoded does not
matter: in messages a name is UTF-8, with surrogates for bytes that are not.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import os
import stat
import zlib
from collections.abc import Iterator

CHUNK = 1 << 20


def encoded(name: str) -> bytes:
    """The bytes of a name in a message."""
    return name.encode("utf-8", "surrogateescape")


def shown(name: bytes) -> str:
    """A name as a line for a person has it: no line ends, no quotes."""
    return ascii(name.decode("utf-8", "replace"))[1:-1]


def folder(name: str) -> bytes:
    """The folder that a message names, absolute; '~' is the user's own there."""
    return os.path.abspath(os.path.expanduser(encoded(name)))


def size(path: bytes) -> int | None:
    """The size of a regular file that is no link; None where there is none."""
    found = status(path)
    return found.st_size if found and stat.S_ISREG(found.st_mode) else None


def status(path: bytes) -> os.stat_result | None:
    """What is known of a file or link; None where there is none."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def pieces(path: bytes) -> Iterator[bytes]:
    """The contents, at most CHUNK bytes at a time."""
    with open(path, "rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def crc(path: bytes) -> int:
    """CRC-32 of the contents, as zlib has it."""
    found = 0
    for piece in pieces(path):
        found = zlib.crc32(piece, found)
    return found


def sync(path: bytes) -> None:
    """Returns once the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
