"""Command `partition`: class folders of a tree to one tar per class."""

import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from google_crc32c import extend

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import atomic_file, check_space, format_size, lock
from im2rec_tools.formats.lists import even_runs
from im2rec_tools.formats.tars import Member, members
from im2rec_tools.formats.tree import classes, walk
from im2rec_tools.progress import Plan, Progress, Update
from im2rec_tools.transfer.file_list import ListedFile, write_listing
from im2rec_tools.transfer.upload_job import described
from im2rec_tools.transfer.urls import safe_name

_FORMAT: Literal[1] = tarfile.GNU_FORMAT


class CheckedFile:
    """File that counts and checksums what is written to it, from beginning to end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = self.crc32c = 0

    def tell(self) -> int:
        """Return the bytes written."""
        return self.size

    def write(self, data: bytes) -> int:
        """Write bytes and return their number."""
        self.size, self.crc32c = self.size + len(data), extend(self.crc32c, data)
        return self._file.write(data)


def plan_partition(root: Path, out: Path, part: tuple[int, int]) -> Plan:
    """Plan to write OUT/CLASS.tar of each class, and their list files.tsv.

    part: share of the classes, (1, 1) for all. A share goes to OUT/part-I-of-N.

    The tar of a class has the folders below it, too. Tars that have the images are kept. Raises
    DataError for a tree without classes, or with a class name that no list can have.
    """
    found, beside = _images(root)
    names = list(found)
    if len(names) < part[1]:
        expected, fix = f"at least {part[1]} classes", "Give --part a smaller number"
        raise DataError(error_line(root, expected=expected, got=len(names), fix=fix))
    mine = [names[at] for at in even_runs(len(names), part[1])[part[0] - 1]]
    folder = out if part[1] == 1 else out / f"part-{part[0]}-of-{part[1]}"
    for name in mine:
        safe_name(f"{name}.tar", str(root))

    def work() -> Iterator[Update]:
        total = sum(len(found[name]) for name in mine)
        sizes = {name: _size(root / name, found[name]) for name in mine}
        with lock(folder):
            left = [
                name
                for name in mine
                if not _is_there(folder / f"{name}.tar", root / name, found[name])
            ]
            _check_others(folder, mine)
            check_space(folder, sum(sizes[name] for name in left), "Use another disk")
            listed, done = list[ListedFile](), 0
            for name in mine:
                yield Progress(step="archiving", done=done, total=total)
                if name in left:
                    listed.append(_write(folder, root / name, found[name]))
                else:
                    listed.append(described(folder, f"{name}.tar"))
                done += len(found[name])
            write_listing(folder, listed)
        if beside:
            yield f"{beside} images beside the class folders are in no tar"
        size = format_size(sum(sizes.values()))
        yield f"{total} images of {len(mine)} classes in {folder}: {size}, {len(left)} tars written"

    return Plan(says=[f"would write {len(mine)} class tars to {folder}"], work=work)


def _images(root: Path) -> tuple[dict[str, list[str]], int]:
    """Return each class's images below its folder, and how many have no class."""
    found: dict[str, list[str]] = {}
    beside = 0
    for name, images in walk(root):
        top, _, below = name.partition("/")
        if name == ".":
            beside = len(images)
        else:
            found.setdefault(top, []).extend(str(PurePosixPath(below, one)) for one in images)
    return (dict(sorted(found.items())) if found else classes(root)), beside


def _check_others(folder: Path, classes: Sequence[str]) -> None:
    """Raise DataError for a tar of another class, which an upload would list."""
    others = sorted({one.stem for one in folder.glob("*.tar")} - set(classes))
    if others:
        expected = "tars of these classes only"
        fix = "Move it away, or write to another folder"
        place = folder / f"{others[0]}.tar"
        raise DataError(error_line(place, expected=expected, got="another tar", fix=fix))


def _is_there(tar: Path, folder: Path, images: Sequence[str]) -> bool:
    """Return whether a tar has these images, by names, sizes and times of change."""
    try:
        written = tar.stat().st_mtime_ns
        found = [(one.name, one.size) for one in members(tar) if isinstance(one, Member)]
    except (OSError, DataError):
        return False
    states = [(name, (folder / name).stat()) for name in images]
    # The latter is the time of a move, which keeps the former.
    newest = max(max(state.st_mtime_ns, state.st_ctime_ns) for _, state in states)
    return found == [(name, state.st_size) for name, state in states] and newest <= written


def _entry(folder: Path, name: str) -> tarfile.TarInfo:
    """Return a header that depends on name and size alone, as on every host."""
    entry = tarfile.TarInfo(name)
    entry.size = (folder / name).stat().st_size
    return entry


def _size(folder: Path, images: Sequence[str]) -> int:
    """Return the bytes of a class's tar."""
    size = 2 * tarfile.BLOCKSIZE
    for name in images:
        entry = _entry(folder, name)
        size += len(entry.tobuf(_FORMAT)) + -(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    return -(-size // tarfile.RECORDSIZE) * tarfile.RECORDSIZE


def _write(out: Path, folder: Path, images: Sequence[str]) -> ListedFile:
    """Write the tar of a class; return its size and CRC-32C."""
    name = f"{folder.name}.tar"
    with atomic_file(out / name) as file:
        checked = CheckedFile(file)
        with tarfile.open(fileobj=checked, mode="w", format=_FORMAT) as archive:  # type: ignore[call-overload] # writes only
            for image in images:
                with (folder / image).open("rb") as opened:
                    archive.addfile(_entry(folder, image), opened)
    return ListedFile(name=name, size=checked.size, digests={"crc32c": f"{checked.crc32c:08x}"})
