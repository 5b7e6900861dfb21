"""What the process that packs and its packing processes say to each other."""

from dataclasses import dataclass
from pathlib import Path

from im2rec_tools.formats.lists import Entry


@dataclass(frozen=True, kw_only=True)
class Block:
    """Encode these images; `places` are offset and size in the tar where they lie in one."""

    number: int
    entries: tuple[Entry, ...]
    places: tuple[tuple[int, int], ...] = ()

    def where(self, at: int) -> str:
        """The image at this place of the block."""
        return self.entries[at].path


@dataclass(frozen=True, kw_only=True)
class EncodedBlock:
    """A block's records: their keys and offsets from its start; images that are bad, and why."""

    number: int
    length: int
    crc32c: int
    index: tuple[tuple[int, int], ...]
    records_crc32c: tuple[int, ...]
    bad: tuple[tuple[Entry, str], ...]


@dataclass(frozen=True, kw_only=True)
class Write:
    """Write an encoded block to this file at this offset."""

    number: int
    path: Path
    offset: int


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Bring a file to the disk."""

    path: Path


@dataclass(frozen=True, kw_only=True)
class WriteResult:
    """What was asked for is done, or why it could not be."""

    asked: Write | Sync
    problem: str = ""


Message = Block | Write | Sync
Answer = EncodedBlock | WriteResult
