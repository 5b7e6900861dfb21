"""What stands beside a shard: what it was made of, how, and what came out."""

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from google_crc32c import extend

from im2rec_tools.errors import DataError, brief, quoted

# 2: crc32c in place of sha256, versions, bad images counted here and listed in NAME.bad.tsv.
# 1: first.
SCHEMA = 2
_MOST = 1 << 62
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


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def versions() -> dict[str, str]:
    """Of the packages that decide what an image becomes."""
    found = {}
    for name in _DECIDING:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
