"""Keeps RecordIO's magic out of aligned places of an image, so that its record is in one part.

MXNet's reader puts records of several parts together in a buffer that its decoding threads share;
two of them close to each other have come out wrong.
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

from im2rec_tools.recordio import MAGIC_BYTES, ImageRecord, frame, is_whole, pack


def aligned_magic(image: bytes) -> bool:
    """Whether the magic stands at a multiple of four bytes."""
    found = image.find(MAGIC_BYTES)
    while found >= 0:
        if found % 4 == 0:
            return True
        found = image.find(MAGIC_BYTES, found + 1)
    return False


def framed(record: ImageRecord) -> bytes:
    """The bytes of a record in the file: in one part, where the image's format allows it."""
    whole = frame(pack(record))
    if is_whole(whole):
        return whole
    return frame(pack(replace(record, image=in_one_part(record.image))))


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
