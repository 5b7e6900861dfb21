"""WebDataset's tar shards: one sample per image, of files that share a key."""

import json
import math
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from im2rec_tools.errors import DataError, error_line, plain, quoted
from im2rec_tools.formats.recordio import ImageRecord
from im2rec_tools.formats.tars import UnreadableMember, members, read_at
from im2rec_tools.formats.tree import SUFFIXES

# The end of a tar.
END = bytes(1024)
_BLOCK = 512
_MOST_IMAGE, _MOST_LABELS = 1 << 29, 1 << 20
_LARGEST_LABEL = 2.0**24
_STARTS = {b"\xff\xd8": "jpg", b"\x89PNG": "png", b"BM": "bmp"}


def emit(record: ImageRecord, where: str) -> bytes:
    """Return the tar members of a sample: the image, and its class or all its labels.

    A single whole label is KEY.cls, other labels are the list `labels` in KEY.json. Raises
    DataError, which begins with `where`, for an image of another format.
    """
    ends = [end for start, end in _STARTS.items() if record.image.startswith(start)]
    if not ends:
        raise DataError(error_line(where, expected="a JPEG, PNG or BMP", got="another image"))
    key = f"{record.index:09}"
    if len(record.labels) == 1 and record.labels[0].is_integer():
        label = _member(f"{key}.cls", str(int(record.labels[0])).encode())
    else:
        label = _member(f"{key}.json", json.dumps({"labels": record.labels}).encode())
    return _member(f"{key}.{ends[0]}", record.image) + label


def _member(name: str, data: bytes) -> bytes:
    header = tarfile.TarInfo(name)
    header.size = len(data)
    return header.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % _BLOCK)


def samples(tar: Path) -> Iterator[tuple[str, dict[str, tuple[int, int]]]]:
    """Yield key and files of each sample: offset and size in the tar, by extension.

    As in WebDataset, files that follow each other and have the same name up to its first dot are
    a sample. Raises DataError for a damaged tar, a link, or an extension that occurs twice.
    """
    current, files = "", dict[str, tuple[int, int]]()
    for member in members(tar):
        if isinstance(member, UnreadableMember):
            fix = "Write the shard again"
            raise DataError(error_line(f"{tar}: {member.name}", problem=member.why, fix=fix))
        folder, name = str(PurePosixPath(member.name).parent), PurePosixPath(member.name).name
        stem, _, end = name.partition(".")
        if not stem or not end or name.startswith("__"):
            continue  # WebDataset skips it, too
        key = stem if folder == "." else f"{folder}/{stem}"
        if key != current and files:
            yield current, files
            files = {}
        if end.lower() in files:
            fix = "Give each sample its own key"
            raise DataError(error_line(f"{tar}: {member.name}", problem="occurs twice", fix=fix))
        current, files[end.lower()] = key, (member.offset, member.size)
    if files:
        yield current, files


def images(tar: Path, first: int) -> Iterator[tuple[str, ImageRecord]]:
    """Yield place and record of each sample; the first has this index."""
    with tar.open("rb") as file:
        for number, (key, files) in enumerate(samples(tar)):
            where = f"{tar}: {key}"
            found = [end for end in files if f".{end.rpartition('.')[2]}" in SUFFIXES]
            if len(found) != 1:
                got = ", ".join(sorted(files))
                raise DataError(error_line(where, expected="one image per sample", got=got))
            labels = _labels(file.fileno(), files, where)
            image = _read(file.fileno(), files[found[0]], _MOST_IMAGE, where)
            yield where, ImageRecord(index=first + number, labels=labels, image=image)


def _read(descriptor: int, place: tuple[int, int], most: int, where: str) -> bytes:
    if place[1] >= most:
        raise DataError(error_line(where, expected=f"files below {most} bytes", got=place[1]))
    return read_at(descriptor, *place)


def _labels(descriptor: int, files: dict[str, tuple[int, int]], where: str) -> tuple[float, ...]:
    end = next((end for end in ("cls", "json") if end in files), "")
    if not end:
        wanted = "a label in a .cls or .json file"
        raise DataError(error_line(where, expected=wanted, got=", ".join(sorted(files))))
    data = _read(descriptor, files[end], _MOST_LABELS, where)
    try:
        found = [int(plain(data.decode().strip()))] if end == "cls" else _listed(json.loads(data))
        labels = tuple(map(float, found))
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        labels = ()
    if not labels or not all(math.isfinite(one) and abs(one) <= _LARGEST_LABEL for one in labels):
        wanted = "a whole number in .cls, or 'label' or 'labels' in .json, up to 2^24"
        raise DataError(error_line(f"{where}.{end}", expected=wanted, got=quoted(data)))
    return labels


def _listed(values: Any) -> Any:
    found = values["labels"] if "labels" in values else [values["label"]]
    if not isinstance(found, list) or any(type(one) not in (int, float) for one in found):
        raise TypeError
    return found
