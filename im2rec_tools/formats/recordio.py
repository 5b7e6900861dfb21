"""RecordIO files as MXNet reads and writes them.

A record is the 32-bit magic, a 32-bit word (3 bits part number, 29 bits length), the payload, and
zeros up to a multiple of 4 bytes, all little endian. A payload that contains the magic at an
aligned offset is split there into parts without those 4 bytes; the reader inserts them again.
"""

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from im2rec_tools.errors import DataError, error_line, quoted

MAGIC = 0xCED7230A
MAGIC_BYTES = struct.pack("<I", MAGIC)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_LENGTH_BITS = 29
_WHOLE_NUMBER = re.compile("[0-9]{1,20}")
# A record's labels are read before the record is checked.
_MOST_LABELS = 1 << 20
_IMAGE_HEADER = struct.Struct("<IfQQ")


@dataclass(frozen=True, kw_only=True)
class ImageRecord:
    """An encoded image with its labels, as MXNet's image iterators expect it."""

    index: int
    labels: tuple[float, ...]
    image: bytes


def pack(record: ImageRecord) -> bytes:
    """Return the payload of an image record; `unpack` is the inverse."""
    count = len(record.labels)
    if count == 1:
        return _IMAGE_HEADER.pack(0, record.labels[0], record.index, 0) + record.image
    header = _IMAGE_HEADER.pack(count, 0, record.index, 0)
    return header + struct.pack(f"<{count}f", *record.labels) + record.image


def unpack(payload: bytes, where: str) -> ImageRecord:
    """Parse a payload; raise DataError, which begins with `where`, if it is bad."""
    if len(payload) < _IMAGE_HEADER.size:
        raise DataError(error_line(where, expected="an image record", got=f"{len(payload)} bytes"))
    count, label, index, _ = _IMAGE_HEADER.unpack_from(payload)
    start = _head_bytes(payload)
    if len(payload) < start or count > _MOST_LABELS:
        raise DataError(
            error_line(
                where,
                expected=f"at most {_MOST_LABELS} labels",
                got=f"a header with {count} labels in {len(payload)} bytes",
            )
        )
    labels = struct.unpack_from(f"<{count}f", payload, _IMAGE_HEADER.size) if count else (label,)
    return ImageRecord(index=index, labels=labels, image=payload[start:])


def _head_bytes(payload: bytes | bytearray) -> int:
    """Return the number of bytes before the image, from a record's first bytes."""
    if len(payload) < _IMAGE_HEADER.size:
        return _IMAGE_HEADER.size
    (count,) = struct.unpack_from("<I", payload)
    return _IMAGE_HEADER.size + 4 * min(int(count), _MOST_LABELS + 1)


def _split_at_magic(payload: bytes) -> list[bytes]:
    """Split the payload at each magic at a multiple of 4 bytes."""
    parts, start, found = [], 0, payload.find(MAGIC_BYTES)
    while found >= 0:
        if found % 4 == 0:
            parts.append(payload[start:found])
            start = found + 4
            found = payload.find(MAGIC_BYTES, start)
        else:
            found = payload.find(MAGIC_BYTES, found + 1)
    return [*parts, payload[start:]]


def frame(payload: bytes) -> bytes:
    """Return the bytes of a record in the file, with header and padding."""
    parts = _split_at_magic(payload)
    if len(parts) == 1:
        return _part(_WHOLE, payload)
    middle = (_part(_MIDDLE, part) for part in parts[1:-1])
    return b"".join((_part(_FIRST, parts[0]), *middle, _part(_LAST, parts[-1])))


def _part(kind: int, data: bytes) -> bytes:
    if len(data) >> _LENGTH_BITS:
        raise DataError(error_line("record", expected="at most 2^29 - 1 bytes", got=len(data)))
    head = struct.pack("<II", MAGIC, kind << _LENGTH_BITS | len(data))
    return b"".join((head, data, bytes(-len(data) % 4)))


class _PartReader:
    """Reads the headers of a file's parts and locates damage."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path
        self.size = path.stat().st_size

    def fail(self, offset: int, found: str) -> DataError:
        return DataError(
            error_line(
                self.path,
                problem=f"damaged at byte {offset} of {self.size}; {found}",
                fix="Pack it again, or copy it again from its source",
            )
        )

    def header(self, offset: int) -> tuple[int, int]:
        """Return kind and length of the part at this offset; it is complete."""
        words = self.file.read(8)
        if len(words) < 8:
            raise self.fail(offset, f"record header truncated after {len(words)} bytes")
        magic, word = struct.unpack("<II", words)
        if magic != MAGIC:
            raise self.fail(offset, f"expected the start of a record, got {words[:4].hex()}")
        kind, length = word >> _LENGTH_BITS, word & ((1 << _LENGTH_BITS) - 1)
        left = self.size - offset - 8
        if length + (-length % 4) > left:
            raise self.fail(offset, f"record of {length} bytes truncated after {left}")
        return kind, length


@dataclass(frozen=True, slots=True)
class _Span:
    """One part of a record: offsets of the record and of the part's data, length."""

    record: int
    data: int
    length: int
    begins: bool
    ends: bool


def _walk(parts: _PartReader, offset: int = 0) -> Iterator[_Span]:
    """Yield the parts of all records from this offset; leave the file at the data.

    All readers use this function, so they accept and reject the same files. Raises DataError for
    bad headers, parts out of order, or padding that is not zero.
    """
    start: int | None = None
    while offset < parts.size:
        parts.file.seek(offset)
        kind, length = parts.header(offset)
        begins, ends = kind in {_WHOLE, _FIRST}, kind in {_WHOLE, _LAST}
        if kind > _LAST or (start is None) != begins:
            raise parts.fail(offset, "the parts of a record are out of order")
        start = offset if start is None else start
        data = offset + 8
        yield _Span(start, data, length, begins, ends)
        parts.file.seek(data + length)
        if any(parts.file.read(-length % 4)):
            raise parts.fail(offset, "expected zeros after a record, got other bytes")
        offset = data + length + (-length % 4)
        start = None if ends else start
    if start is not None:
        raise parts.fail(offset, "the last record is incomplete")


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield offset and payload of every record; raise DataError for damage."""
    with path.open("rb") as file:
        payload = bytearray()
        for span in _walk(_PartReader(file, path)):
            if span.begins:
                payload = bytearray()
            else:
                payload += MAGIC_BYTES
            payload += file.read(span.length)
            if span.ends:
                yield span.record, bytes(payload)


def headers(path: Path) -> Iterator[tuple[ImageRecord, int]]:
    """Yield every image record without its image, and the image's size in bytes."""
    if not path.is_file():
        raise _no_file(path)
    with path.open("rb") as file:
        head, size = bytearray(), 0
        for span in _walk(_PartReader(file, path)):
            if span.begins:
                head, size = bytearray(), 0
            else:
                size += len(MAGIC_BYTES)
                head += MAGIC_BYTES if len(head) < _head_bytes(head) else b""
            size, left = size + span.length, span.length
            while left and len(head) < _head_bytes(head):
                some = file.read(min(left, _head_bytes(head) - len(head)))
                head += some
                left -= len(some)
            if span.ends:
                record = unpack(bytes(head), f"{path}: byte {span.record}")
                yield replace(record, image=b""), size - len(head) + len(record.image)


def read_index(path: Path) -> list[tuple[int, int]]:
    """Read an .idx file: (key, offset) per line. Raises DataError for a bad line."""
    pairs = []
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), 1):
        key, _, offset = line.partition("\t")
        if not (_WHOLE_NUMBER.fullmatch(key) and _WHOLE_NUMBER.fullmatch(offset)):
            raise DataError(
                error_line(f"{path}:{number}", expected="'key<TAB>offset'", got=quoted(line))
            )
        pairs.append((int(key), int(offset)))
    return pairs


def _no_file(path: Path) -> DataError:
    return DataError(
        error_line(path, problem="no such file", fix="Make .rec files with 'fab data.prepare DIR'")
    )


def count_records(path: Path) -> int:
    """Return the number of records of a file; see `offsets_of`."""
    return len(offsets_of(path))


def offsets_of(path: Path) -> list[int]:
    """Return the offset of each record, from the .idx if there is one.

    A file truncated between two records looks complete, so every reader calls this first. With
    an index the check reads the headers of the first and the last record, otherwise all headers.
    """
    if not path.is_file():
        raise _no_file(path)
    if path.stat().st_size == 0:
        raise DataError(error_line(path, problem="the file is empty", fix="Pack it again"))
    index = path.with_suffix(".idx")
    offsets = sorted(offset for _, offset in read_index(index)) if index.is_file() else []
    with path.open("rb") as file:
        parts = _PartReader(file, path)
        if not offsets:
            return [span.record for span in _walk(parts) if span.begins]
        if offsets[0] != 0 or offsets[-1] >= parts.size or len(set(offsets)) < len(offsets):
            raise DataError(
                error_line(
                    index,
                    problem=(
                        f"offsets run from {offsets[0]} to {offsets[-1]}, but {path.name} has "
                        f"{parts.size} bytes; the index belongs to another file, or {path.name} is "
                        "truncated"
                    ),
                    fix="Pack or copy both again",
                )
            )
        next(_walk(parts))
        if sum(span.begins for span in _walk(parts, offsets[-1])) != 1:
            raise DataError(
                error_line(
                    index,
                    problem=f"{path.name} has records after the last one listed",
                    fix="Pack or copy both again",
                )
            )
        return offsets


def read_record(path: Path, offset: int, length: int, file: int | None = None) -> bytes:
    """Read the payload of the record at these bytes of a file.

    `file` is its descriptor, if it is open.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if file is None else file
    try:
        framed = os.pread(descriptor, length, offset)
    finally:
        if file is None:
            os.close(descriptor)
    payload = _whole_payload(framed)
    if payload is None:
        raise DataError(
            error_line(
                path,
                problem=f"damaged at byte {offset}; expected a record of {length} bytes",
                fix="Pack it again",
            )
        )
    return payload


def _whole_payload(framed: bytes) -> bytes | None:
    """Join the parts of a record; return None if it is incomplete."""
    parts: list[bytes] = []
    at = 0
    while at + 8 <= len(framed):
        magic, word = struct.unpack_from("<II", framed, at)
        kind, length = word >> _LENGTH_BITS, word & ((1 << _LENGTH_BITS) - 1)
        if magic != MAGIC or at + 8 + length > len(framed):
            return None
        if (kind in {_WHOLE, _FIRST}) != (not parts) or kind > _LAST:
            return None
        parts.append(framed[at + 8 : at + 8 + length])
        if kind in {_WHOLE, _LAST}:
            return MAGIC_BYTES.join(parts)
        at += 8 + length + (-length % 4)
    return None


def aligned_magic(data: bytes) -> bool:
    """Return whether the data contain the magic at a multiple of 4 bytes."""
    return len(_split_at_magic(data)) > 1


def frame_record(record: ImageRecord) -> bytes:
    """Return the bytes of a record in the file, in one part if the format allows."""
    payload = pack(record)
    if aligned_magic(payload):
        payload = pack(replace(record, image=in_one_part(record.image)))
    return frame(payload)


def in_one_part(image: bytes) -> bytes:
    """Return the same image without the magic at a multiple of 4 bytes, if possible.

    The function inserts 1 to 3 bytes that decoders skip, after a JPEG's first marker or the
    header of a PNG or BMP.
    """
    if not aligned_magic(image):
        return image
    for start, moved in _MOVES.items():
        if image.startswith(start):
            tries = (moved(image, extra) for extra in range(1, 4))
            return next((one for one in tries if not aligned_magic(one)), image)
    return image


def _jpeg(image: bytes, extra: int) -> bytes:
    comment = b"\xff\xfe" + struct.pack(">H", 2 + extra) + bytes(extra)
    return image[:2] + comment + image[2:]


def _png(image: bytes, extra: int) -> bytes:
    body = b"paDd" + bytes(extra)  # a private, optional chunk
    chunk = struct.pack(">I", extra) + body + struct.pack(">I", zlib.crc32(body))
    return image[:33] + chunk + image[33:]


def _bmp(image: bytes, extra: int) -> bytes:
    start = struct.unpack_from("<I", image, 10)[0]
    sizes = struct.pack("<IHHI", len(image) + extra, 0, 0, start + extra)
    return image[:2] + sizes + image[14:start] + bytes(extra) + image[start:]


_MOVES: dict[bytes, Callable[[bytes, int], bytes]] = {
    b"\xff\xd8": _jpeg,
    b"\x89PNG\r\n\x1a\n": _png,
    b"BM": _bmp,
}
