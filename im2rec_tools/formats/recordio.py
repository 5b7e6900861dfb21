"""RecordIO files as MXNet reads and writes them.

A record is the 32-bit magic, a 32-bit word of 3 bits part number and 29 bits length, the payload,
and zeros up to a multiple of 4 bytes, all little endian. A payload that holds the magic at an
aligned offset is cut there into parts, without those four bytes; the reader puts them back.
"""

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from im2rec_tools.errors import DataError, quoted

MAGIC = 0xCED7230A
MAGIC_BYTES = struct.pack("<I", MAGIC)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_LENGTH_BITS = 29
_WHOLE_NUMBER = re.compile("[0-9]{1,20}")
# Of an image; the labels of a record are read before anything else is known of it.
_MOST_LABELS = 1 << 20
_IMAGE_HEADER = struct.Struct("<IfQQ")


@dataclass(frozen=True, kw_only=True)
class ImageRecord:
    """An encoded image with its label or labels, as MXNet's image iterators expect it."""

    index: int
    labels: tuple[float, ...]
    image: bytes


def pack(record: ImageRecord) -> bytes:
    """The payload of an image record; `unpack` is its inverse."""
    count = len(record.labels)
    if count == 1:
        return _IMAGE_HEADER.pack(0, record.labels[0], record.index, 0) + record.image
    header = _IMAGE_HEADER.pack(count, 0, record.index, 0)
    return header + struct.pack(f"<{count}f", *record.labels) + record.image


def unpack(payload: bytes, where: str) -> ImageRecord:
    """The image record in a payload; DataError names `where` for any other."""
    if len(payload) < _IMAGE_HEADER.size:
        raise DataError(f"{where}: expected an image record, got {len(payload)} bytes")
    count, label, index, _ = _IMAGE_HEADER.unpack_from(payload)
    start = _head_bytes(payload)
    if len(payload) < start or count > _MOST_LABELS:
        raise DataError(
            f"{where}: expected at most {_MOST_LABELS} labels in the record, its header says "
            f"{count} in {len(payload)} bytes"
        )
    labels = struct.unpack_from(f"<{count}f", payload, _IMAGE_HEADER.size) if count else (label,)
    return ImageRecord(index=index, labels=labels, image=payload[start:])


def _head_bytes(payload: bytes | bytearray) -> int:
    """How many bytes of an image record come before its image, as far as its beginning says."""
    if len(payload) < _IMAGE_HEADER.size:
        return _IMAGE_HEADER.size
    (count,) = struct.unpack_from("<I", payload)
    return _IMAGE_HEADER.size + 4 * min(int(count), _MOST_LABELS + 1)


def _split_at_magic(payload: bytes) -> list[bytes]:
    """The payload, cut where it holds the magic at a multiple of 4 bytes."""
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
    """The bytes of one record in the file, padding included."""
    parts = _split_at_magic(payload)
    if len(parts) == 1:
        return _part(_WHOLE, payload)
    middle = (_part(_MIDDLE, part) for part in parts[1:-1])
    return b"".join((_part(_FIRST, parts[0]), *middle, _part(_LAST, parts[-1])))


def _part(kind: int, data: bytes) -> bytes:
    if len(data) >> _LENGTH_BITS:
        raise DataError(f"{len(data)} bytes are too many for a record; it holds 2**29 - 1")
    head = struct.pack("<II", MAGIC, kind << _LENGTH_BITS | len(data))
    return b"".join((head, data, bytes(-len(data) % 4)))


class _PartReader:
    """Reads parts of records one after another and says where a file is damaged."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path
        self.size = path.stat().st_size

    def fail(self, offset: int, found: str) -> DataError:
        return DataError(
            f"{self.path}: damaged at byte {offset} of {self.size}: {found}; "
            f"pack it again or copy it again from where it was made"
        )

    def header(self, offset: int) -> tuple[int, int]:
        """Kind and length of the part that begins at this offset; it lies wholly in the file."""
        words = self.file.read(8)
        if len(words) < 8:
            raise self.fail(offset, f"a record's header is cut off after {len(words)} bytes")
        magic, word = struct.unpack("<II", words)
        if magic != MAGIC:
            raise self.fail(offset, f"expected the start of a record, got {words[:4].hex()}")
        kind, length = word >> _LENGTH_BITS, word & ((1 << _LENGTH_BITS) - 1)
        left = self.size - offset - 8
        if length + (-length % 4) > left:
            raise self.fail(offset, f"a record of {length} bytes is cut off after {left}")
        return kind, length


@dataclass(frozen=True, slots=True)
class _Span:
    """One part of a record: where the record begins, where the part's data, how long they are."""

    record: int
    data: int
    length: int
    begins: bool
    ends: bool


def _walk(parts: _PartReader, offset: int = 0) -> Iterator[_Span]:
    """The parts of all records from this offset on, the file standing at the data of each.

    All that read a file walk here, so that they take and refuse the same files. DataError where
    the headers, the order of the parts or the zeros between them are not as they are written.
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
            raise parts.fail(offset, "the zeros after a record are none")
        offset = data + length + (-length % 4)
        start = None if ends else start
    if start is not None:
        raise parts.fail(offset, "the last record has no end")


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset and payload of every record; DataError where the file is damaged."""
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
    """Every image record without its image, and how many bytes that has; reads no image."""
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
    """(key, offset) of every line of an .idx file; DataError names the line that is wrong."""
    pairs = []
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), 1):
        key, _, offset = line.partition("\t")
        if not (_WHOLE_NUMBER.fullmatch(key) and _WHOLE_NUMBER.fullmatch(offset)):
            raise DataError(f"{path}:{number}: expected 'key<TAB>offset', got {quoted(line)}")
        pairs.append((int(key), int(offset)))
    return pairs


def _no_file(path: Path) -> DataError:
    return DataError(f"{path}: no such file; expected a .rec made by 'fab data.prepare'")


def count_records(path: Path) -> int:
    """How many records a file holds; see `offsets_of`."""
    return len(offsets_of(path))


def offsets_of(path: Path) -> list[int]:
    """Where each record of a file begins, from its .idx where there is one, its ends checked.

    A file that was cut between two records looks like a shorter one, so every file that is read
    passes here first. With an index the check reads the first and the last record's header;
    without one it walks all headers.
    """
    if not path.is_file():
        raise _no_file(path)
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty; pack it again")
    index = path.with_suffix(".idx")
    offsets = sorted(offset for _, offset in read_index(index)) if index.is_file() else []
    with path.open("rb") as file:
        parts = _PartReader(file, path)
        if not offsets:
            return [span.record for span in _walk(parts) if span.begins]
        if offsets[0] != 0 or offsets[-1] >= parts.size or len(set(offsets)) < len(offsets):
            raise DataError(
                f"{index}: its offsets run from {offsets[0]} to {offsets[-1]} and {path.name} has "
                f"{parts.size} bytes; the two do not belong together or {path.name} is cut off"
            )
        next(_walk(parts))
        if sum(span.begins for span in _walk(parts, offsets[-1])) != 1:
            raise DataError(f"{index}: {path.name} holds records after the last one it lists")
        return offsets


def read_record(path: Path, offset: int, length: int) -> bytes:
    """The payload of the record in these bytes of a file, without a check of what follows it."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        framed = os.pread(file, length, offset)
    finally:
        os.close(file)
    payload = _whole_payload(framed)
    if payload is None:
        raise DataError(
            f"{path}: damaged at byte {offset}: expected a record of {length} bytes; pack it again"
        )
    return payload


def _whole_payload(framed: bytes) -> bytes | None:
    """What the parts of one record hold together; None where they are no whole record."""
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
    """Whether the magic stands at a multiple of four bytes."""
    return len(_split_at_magic(data)) > 1


def frame_record(record: ImageRecord) -> bytes:
    """The bytes of a record in the file: in one part, where the image's format allows it."""
    payload = pack(record)
    if aligned_magic(payload):
        payload = pack(replace(record, image=in_one_part(record.image)))
    return frame(payload)


def in_one_part(image: bytes) -> bytes:
    """The same picture without the magic at a multiple of four bytes, where its format allows it.

    What follows a JPEG's first marker, a PNG's header or a BMP's header is moved by a few bytes
    that decoders pass over.
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
    body = b"paDd" + bytes(extra)  # a private chunk that may be left out
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
