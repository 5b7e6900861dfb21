"""Tars of class tars, read in place: members without unpacking."""

import os
import re
import tarfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from im2rec_tools.errors import DamagedTarError, DataError, brief
from im2rec_tools.formats.tree import is_image

_BLOCK = 512
_DEEPEST = 100  # folders
_NO_NAMES = {"", ".", ".."}
DUPLICATE = "is in it twice"
# Of a header with a long name or attributes, which tarfile reads at once.
_MOST_HEADER = 1 << 16
# tarfile's pattern for such a header takes the square of the time for a run of digits.
_DIGITS = re.compile(rb"[0-9]{1000}")
# All that tarfile raises for a header whose fields are not what they should be.
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
    """A regular file in a tar: its name there, where its bytes begin in the file, how many."""

    name: str
    offset: int
    size: int

    @property
    def is_class(self) -> bool:
        """Whether it is a class's own tar."""
        return self.name.endswith(".tar")

    @property
    def class_name(self) -> str:
        """The class whose tar it is: the name without folders and ending."""
        return PurePosixPath(self.name).stem


@dataclass(frozen=True, kw_only=True)
class UnreadableMember:
    """Something in a tar that must not be unpacked."""

    name: str
    why: str


def members(tar: Path, within: Member | None = None) -> Iterator[Member | UnreadableMember]:
    """What is in a tar, or in the tar `within` it; folders are passed over.

    Raises DataError where it is no tar, or is cut off.
    """
    where = f"{tar}: {within.name}" if within else str(tar)
    start, end = (within.offset, within.offset + within.size) if within else (0, _size(tar))
    try:
        with tar.open("rb") as file:
            file.seek(start)
            bounded = _Headers(file)
            with tarfile.open(fileobj=bounded, mode="r:", errorlevel=2) as archive:  # type: ignore[call-overload] # reads, seeks and tells
                yield from _members(archive, end, where)
                # tarfile takes a damaged header for the end.
                if archive.offset >= end or any(read_at(file.fileno(), archive.offset, _BLOCK)):
                    raise DamagedTarError(
                        f"{where}: is damaged or cut off at byte {archive.offset}; get it again"
                    )
    except _DAMAGED as error:
        raise DamagedTarError(f"{where}: not a whole uncompressed tar ({brief(error)})") from error
    except OSError as error:
        raise DamagedTarError(f"{where}: cannot be read ({error.strerror})") from error


class _Headers:
    """A tar as tarfile reads it: its headers only, none of which is long."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        """Bytes of a header; tarfile.ReadError for more than a header has."""
        if not 0 <= size <= _MOST_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes, expected {_MOST_HEADER} or fewer")
        data = self._file.read(size)
        if _DIGITS.search(data):
            raise tarfile.ReadError("a header with a number of 1000 digits or more")
        return data


def _size(tar: Path) -> int:
    try:
        return tar.stat().st_size
    except OSError as error:
        raise DataError(f"{tar}: cannot be read ({error.strerror}); expected a tar") from error


def _members(archive: tarfile.TarFile, end: int, where: str) -> Iterator[Member | UnreadableMember]:
    for member in archive:
        archive.members.clear()  # type: ignore[attr-defined] # it would keep all of them
        if member.offset >= end:
            return
        if member.isdir():
            continue
        if member.size < 0:
            archive.offset = member.offset_data  # where the next one begins, if it has no bytes
            yield UnreadableMember(name=member.name, why=f"its size is {member.size}")
        elif not member.isreg() or member.issparse():
            yield UnreadableMember(name=member.name, why="a link, a device or a sparse file")
        elif not _is_safe(member.name) or PurePosixPath(member.name).stem in _NO_NAMES:
            yield UnreadableMember(name=member.name, why="its name leads out of the folder")
        elif member.offset_data + member.size > end:
            raise DamagedTarError(f"{where}: is cut off in {member.name}; get it again")
        else:
            yield Member(
                name=str(PurePosixPath(member.name)), offset=member.offset_data, size=member.size
            )


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    outside = path.is_absolute() or ".." in path.parts
    return bool(path.parts) and not outside and "\0" not in name and len(path.parts) < _DEEPEST


class TarImages:
    """Where the images of a tar of class tars lie; paths are those of the unpacked tree."""

    def __init__(self, tar: Path) -> None:
        self.tar = tar
        self.refused: dict[str, str] = {}
        self._places: dict[str, int] = {}
        self._offsets, self._sizes = array("q"), array("q")

    def folders(self, endings: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
        """Classes and the names of their images, sorted as in the unpacked tree."""
        found = list(members(self.tar))
        outer = [one for one in found if isinstance(one, Member)]
        self.refused = {one.name: one.why for one in found if isinstance(one, UnreadableMember)}
        outer, twice = distinct(outer)
        self.refused |= twice
        loose = [one.name for one in outer if not one.is_class]
        if loose or not outer:
            what = loose[0] if loose else "nothing"
            raise DataError(
                f"{self.tar}: expected class tars (n01440764.tar ...) and no more, found {what}; "
                f"unpack it (untar)"
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
        """Offset and length of an image in the tar; DataError where it is not there."""
        try:
            number = self._places[path]
        except KeyError:
            raise DataError(f"{self.tar}: has no {path}, which a list names") from None
        return self._offsets[number], self._sizes[number]


def distinct(found: list[Member]) -> tuple[list[Member], dict[str, str]]:
    """The members of a tar, each in a place of its own; why each of the others is left out."""
    places: dict[str, Member] = {}
    folders: set[str] = set()
    refused: dict[str, str] = {}
    for one in found:
        name = one.class_name if one.is_class else one.name
        above = {str(parent) for parent in PurePosixPath(name).parents} - {"."}
        if one.is_class and name == ".tar":
            refused[one.name] = "it names no class"
        elif name in places:
            refused[one.name] = DUPLICATE
        elif name in folders or above & places.keys():
            refused[one.name] = "stands where another is, as a file or class and as a folder"
        else:
            places[name] = one
            folders |= above
    return list(places.values()), refused


def read_at(descriptor: int, offset: int, size: int) -> bytes:
    """Bytes of an open file; DataError where it ends before them."""
    pieces = []
    while size:
        piece = os.pread(descriptor, size, offset)
        if not piece:
            raise DamagedTarError("the tar ends in the middle of it")
        pieces.append(piece)
        offset, size = offset + len(piece), size - len(piece)
    return b"".join(pieces)
