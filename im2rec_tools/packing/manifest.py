"""What stands beside a shard: what it was made of, how, and what came out."""

import json
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from google_crc32c import extend

from im2rec_tools.errors import DataError, brief, quoted
from im2rec_tools.files import digest, write_text

# 2: crc32c in place of sha256, versions, bad images counted here and listed in NAME.bad.tsv.
# 1: first.
SCHEMA = 2
_MOST = 1 << 62
# Packages that decide what an image becomes.
_DECIDING = ("simplejpeg", "opencv-python-headless")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """NAME.json of NAME.rec; CRCs are eight hex digits: of the whole .rec, of each record in it."""

    schema: int
    list_sha256: str
    recipe: dict[str, Any]
    versions: dict[str, str]
    images: int
    bad: int
    bytes: int
    crc32c: str
    records_crc32c: str


@dataclass(kw_only=True)
class WrittenBytes:
    """What a shard has so far: its size, its CRC, and that of each record in hex digits."""

    size: int = 0
    crc32c: int = 0
    records: list[str] = field(default_factory=list)

    def add(self, framed: bytes) -> None:
        """Counts a record, its frame included."""
        self.size += len(framed)
        self.crc32c = extend(self.crc32c, framed)
        self.records.append(f"{extend(0, framed):08x}")


def read(rec: Path) -> Manifest | None:
    """The manifest of a shard, None where there is none; DataError where it is not one."""
    import msgspec  # noqa: PLC0415 - the list of commands does without

    path = rec.with_suffix(".json")
    if not path.is_file():
        return None
    try:
        made = msgspec.json.decode(path.read_bytes())
        schema = made.get("schema") if isinstance(made, dict) else None
        if isinstance(schema, int) and schema != SCHEMA:
            raise DataError(
                f"{path}: has schema {quoted(schema)}, expected {SCHEMA}; it was packed by another "
                f"version of this program: move the shard away and pack it again"
            )
        found = msgspec.convert(made, Manifest)
    except (ValueError, RecursionError) as error:  # msgspec's errors among them
        raise DataError(f"{path}: not a manifest of a shard: {brief(error)}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if not all(0 <= one < _MOST for one in (found.images, found.bad, found.bytes)):
        raise DataError(f"{path}: not a manifest of a shard: it has a count that nothing has")
    return found


def is_packed(made: Manifest, number: int, framed: bytes) -> bool:
    """Whether these are the bytes of the shard's record of this number, its frame included."""
    return made.records_crc32c[8 * number : 8 * number + 8] == f"{extend(0, framed):08x}"


def text(manifest: Manifest) -> str:
    """What the file holds; `read` is its inverse."""
    return json.dumps(asdict(manifest), indent=1) + "\n"


def write(
    rec: Path, source: Path, recipe: dict[str, Any], written: WrittenBytes, bad: int = 0
) -> None:
    """Writes the manifest of a shard that was made of `source`, a list or a file of records."""
    made = Manifest(
        schema=SCHEMA,
        list_sha256=digest(source),
        recipe=recipe,
        versions={name: _version(name) for name in _DECIDING},
        images=len(written.records),
        bad=bad,
        bytes=written.size,
        crc32c=f"{written.crc32c:08x}",
        records_crc32c="".join(written.records),
    )
    write_text(rec.with_suffix(".json"), text(made))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
