"""Tars of class tars, read without unpacking."""

import os
import re
import stat
import tarfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from im2rec_tools.errors import DamagedTarError, DataError, brief, error_line
from im2rec_tools.formats.tree import is_image

_BLOCK = 512
_DEEPEST = 100  # folders
_NO_NAMES = {"", ".", ".."}
_GZIP = b"\x1f\x8b"
# Bytes of a name that leave room for '.' and '.part', and of a path that leave room for its folder.
_LONGEST_NAME, _LONGEST_PATH = 249, 2048
DUPLICATE = "duplicate name in the tar"
# Bytes of a header with a long name or attributes, which tarfile reads at once.
_MOST_HEADER = 1 << 16
# tarfile's pattern for such a header takes quadratic time for a run of digits.
_DIGITS = re.compile(rb"[0-9]{1000}")
# All errors that tarfile raises for bad header fields.
_DAMAGED = (
    tarfile.TarError,
    ValueError,
    OverflowError,
    MemoryError,
    RecursionError,
    EOFError,
    LookupError,
)


@dataclass(frozen=True, kw_only=True)
class Member:
    """A regular file in a tar: name, offset and size in bytes."""

    name: str
    offset: int
    size: int

    @property
    def is_class(self) -> bool:
        """Whether the member is the tar of a class."""
        return self.name.endswith(".tar")

    @property
    def class_name(self) -> str:
        """The class of the tar: its name without folders and extension."""
        return PurePosixPath(self.name).stem


@dataclass(frozen=True, kw_only=True)
class UnreadableMember:
    """A member of a tar that must not be unpacked, and the reason."""

    name: str
    why: str


def members(tar: Path, within: Member | None = None) -> Iterator[Member | UnreadableMember]:
    """Yield the members of a tar, or of the tar `within` it; skip folders.

    Raises DamagedTarError for a file that is no tar or is truncated.
    """
    where = f"{tar}: {within.name}" if within else str(tar)
    start, end = (within.offset, within.offset + within.size) if within else (0, _size(tar))
    try:
        with tar.open("rb") as file:
            file.seek(start)
            if within and file.read(len(_GZIP)) == _GZIP:
                raise DamagedTarError(
                    error_line(
                        where,
                        problem="gzip-compressed within the tar",
                        fix="Unpack the outer tar, and give its folder",
                    )
                )
            file.seek(start)
            bounded = _Headers(file)
            with tarfile.open(fileobj=bounded, mode="r:", errorlevel=2) as archive:  # type: ignore[call-overload] # reads and seeks
                yield from _members(archive, end, where)
                # For tarfile a damaged header is the end of the tar.
                if archive.offset >= end or any(read_at(file.fileno(), archive.offset, _BLOCK)):
                    raise DamagedTarError(
                        error_line(
                            where,
                            problem=f"damaged or truncated at byte {archive.offset}",
                            fix="Get it again",
                        )
                    )
    except _DAMAGED as error:
        raise DamagedTarError(
            error_line(
                where,
                expected="a complete, uncompressed tar",
                got=f"other data ({brief(error)})",
                fix="Get it again, or decompress it",
            )
        ) from error
    except OSError as error:
        raise DamagedTarError(
            error_line(where, problem=f"cannot be read ({error.strerror})")
        ) from error


class _Headers:
    """File object for tarfile that reads headers only, of limited size."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        """Read bytes of a header; raise tarfile.ReadError for too many."""
        if not 0 <= size <= _MOST_HEADER:
            raise tarfile.ReadError(
                f"expected a header of at most {_MOST_HEADER} bytes, got {size}"
            )
        data = self._file.read(size)
        if _DIGITS.search(data):
            raise tarfile.ReadError("header with a number of 1000 digits or more")
        return data


def _size(tar: Path) -> int:
    try:
        found = tar.stat()
    except OSError as error:
        raise DataError(
            error_line(tar, problem=f"cannot be read ({error.strerror})", fix="Give a tar file")
        ) from error
    if not stat.S_ISREG(found.st_mode):  # opening a named pipe would block
        raise DataError(
            error_line(tar, expected="a regular file", got="something else", fix="Give a tar file")
        )
    return found.st_size


def _members(archive: tarfile.TarFile, end: int, where: str) -> Iterator[Member | UnreadableMember]:
    for member in archive:
        archive.members.clear()  # type: ignore[attr-defined] # otherwise it keeps all of them
        if member.offset >= end:
            return
        if member.isdir():
            continue
        if member.size < 0:
            archive.offset = member.offset_data  # the next member, if this one has no data
            yield UnreadableMember(name=member.name, why=f"its size is {member.size}")
        elif not member.isreg() or member.issparse():
            yield UnreadableMember(name=member.name, why="a link, a device or a sparse file")
        elif not _is_safe(member.name) or PurePosixPath(member.name).stem in _NO_NAMES:
            yield UnreadableMember(name=member.name, why="its name leads out of the folder")
        elif _is_long(member.name):
            yield UnreadableMember(name=member.name, why="its name is too long")
        elif member.offset_data + member.size > end:
            raise DamagedTarError(
                error_line(where, problem=f"truncated in {member.name}", fix="Get it again")
            )
        else:
            yield Member(
                name=str(PurePosixPath(member.name)), offset=member.offset_data, size=member.size
            )


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts
    return bool(path.parts) and not outside and "\0" not in name and len(path.parts) < _DEEPEST


def _is_long(name: str) -> bool:
    longest = max(len(os.fsencode(part)) for part in PurePosixPath(name).parts)
    return longest > _LONGEST_NAME or len(os.fsencode(name)) > _LONGEST_PATH


class TarImages:
    """Index of the images of a tar of class tars, by path in the unpacked tree."""

    def __init__(self, tar: Path) -> None:
        self.tar = tar
        self.refused: dict[str, str] = {}
        self._places: dict[str, int] = {}
        self._offsets, self._sizes = array("q"), array("q")

    def folders(self, endings: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
        """Yield classes and the names of their images, sorted as in the unpacked tree."""
        found = list(members(self.tar))
        outer = [one for one in found if isinstance(one, Member)]
        self.refused = {one.name: one.why for one in found if isinstance(one, UnreadableMember)}
        outer, twice = distinct(outer)
        self.refused |= twice
        loose = [one.name for one in outer if not one.is_class]
        if loose or not outer:
            other = loose[0] if loose else "nothing"
            raise DataError(
                error_line(
                    self.tar,
                    expected="only class tars (n01440764.tar ...)",
                    got=f"{other}",
                    fix=f"Unpack it: fab data.untar {self.tar} DIR",
                )
            )
        outer = [one for one in outer if not one.class_name.startswith(".")]
        for one in sorted(outer, key=lambda member: member.class_name):
            yield from self._classes(one, endings)

    def _classes(self, outer: Member, endings: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
        found: dict[tuple[str, ...], list[str]] = {}
        for image in members(self.tar, outer):
            if isinstance(image, UnreadableMember):
                self.refused[f"{outer.name}/{image.name}"] = image.why
                continue
            parts = PurePosixPath(image.name).parts
            if not is_image(parts[-1], endings) or any(part.startswith(".") for part in parts):
                continue
            path = f"{outer.class_name}/{image.name}"
            if path in self._places:
                self.refused[f"{outer.name}/{image.name}"] = DUPLICATE
                continue
            self._places[path] = len(self._offsets)
            self._offsets.append(image.offset)
            self._sizes.append(image.size)
            *folders, name = path.split("/")
            found.setdefault(tuple(folders), []).append(name)
        for parts in sorted(found):
            yield "/".join(parts), sorted(found[parts])

    def place(self, path: str) -> tuple[int, int]:
        """Return offset and size of an image in the tar; raise DataError if missing."""
        try:
            number = self._places[path]
        except KeyError:
            raise DataError(
                error_line(
                    self.tar,
                    expected=f"{path}, which a list names",
                    got="none",
                    fix="Make the lists again",
                )
            ) from None
        return self._offsets[number], self._sizes[number]


def distinct(found: list[Member]) -> tuple[list[Member], dict[str, str]]:
    """Return the members with distinct paths, and the reason for each other one."""
    places: dict[str, Member] = {}
    folders: set[str] = set()
    refused: dict[str, str] = {}
    for one in found:
        name = one.class_name if one.is_class else one.name
        above = {str(parent) for parent in PurePosixPath(name).parents} - {"."}
        if one.is_class and name == ".tar":
            refused[one.name] = "its name has no class"
        elif name in places:
            refused[one.name] = DUPLICATE
        elif name in folders or above & places.keys():
            refused[one.name] = "its path is both a file and a folder in the tar"
        else:
            places[name] = one
            folders |= above
    return list(places.values()), refused


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Read bytes of an open file; raise DamagedTarError at its end."""
    pieces = []
    while size:
        piece = os.pread(descriptor, size, offset)
        if not piece:
            raise DamagedTarError(error_line("", problem="the tar is truncated in this file"))
        pieces.append(piece)
        offset, size = offset + len(piece), size - len(piece)
    return b"".join(pieces)
