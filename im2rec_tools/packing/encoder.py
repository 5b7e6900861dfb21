"""Encoder process: encodes blocks of images and writes them to shards.

Encoded blocks stay in this process until their offset in the shard is known, so no image moves
between processes. The packer sends messages and receives one answer to each.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
from google_crc32c import extend

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.formats.images import encode
from im2rec_tools.formats.lists import Entry
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.formats.recordio import ImageRecord, frame_record
from im2rec_tools.formats.tars import read_at
from im2rec_tools.packing.packer import Answer, Block, EncodedBlock, Message, Write, WriteResult


class Encoder:
    """Answers messages; keeps encoded blocks until they are written."""

    def __init__(self, source: Path, recipe: Recipe, position: Any) -> None:
        self._recipe, self._position = recipe, position
        self._root = str(source)
        self._tar = os.open(source, os.O_RDONLY) if source.is_file() else -1
        self._held: dict[int, bytearray] = {}
        self._open: tuple[Path, int] | None = None

    def answer(self, message: Message) -> Answer:
        """Execute a message and return its answer."""
        if isinstance(message, Block):
            return self._encode(message)
        try:
            if isinstance(message, Write):
                self._write(message)
            else:
                os.fsync(self._file(message.path))
        except OSError as error:
            return WriteResult(asked=message, problem=error.strerror or str(error))
        return WriteResult(asked=message)

    def _encode(self, block: Block) -> EncodedBlock:
        records = bytearray()
        index: list[tuple[int, int]] = []
        bad: list[tuple[Entry, str]] = []
        crcs: list[int] = []
        for at, entry in enumerate(block.entries):
            self._position[:] = (block.number, at)
            try:
                data = self._read(entry.path, block.places[at] if block.places else None)
                image = encode(data, self._recipe)
                labels = entry.labels if self._recipe.labels == "all" else entry.labels[:1]
                data = frame_record(ImageRecord(index=entry.index, labels=labels, image=image))
            except DataError as error:
                bad.append((entry, str(error)))
            except OSError as error:
                bad.append((entry, f"cannot be read ({error.strerror})"))
            else:
                index.append((entry.index, len(records)))
                crcs.append(extend(0, data))
                records += data
        self._held[block.number] = records
        return EncodedBlock(
            number=block.number,
            length=len(records),
            crc32c=extend(0, bytes(records)),
            index=tuple(index),
            records_crc32c=tuple(crcs),
            bad=tuple(bad),
        )

    def _read(self, path: str, place: tuple[int, int] | None) -> bytes:
        if place is not None:
            return read_at(self._tar, *place)
        # As upstream does: an absolute path ignores the root.
        full = os.path.join(self._root, path)  # noqa: PTH118 - no objects: there are millions
        # Without O_NONBLOCK, opening a named pipe would block.
        descriptor = os.open(full, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise DataError(error_line("", problem="not a regular file"))
            return file.read()

    def _write(self, message: Write) -> None:
        left, offset = memoryview(self._held.pop(message.number)), message.offset
        descriptor = self._file(message.path)
        while left:
            written = os.pwrite(descriptor, left, offset)
            left, offset = left[written:], offset + written

    def _file(self, path: Path) -> int:
        if self._open is None or self._open[0] != path:
            if self._open is not None:
                os.close(self._open[1])
            self._open = (path, os.open(path, os.O_WRONLY | os.O_NOFOLLOW))
        return self._open[1]


def server(position: Any, source: Path, recipe: Recipe) -> Callable[[Message], Answer]:
    """Return the function that answers the messages of a packer."""
    cv2.setNumThreads(1)
    return Encoder(source, recipe, position).answer
