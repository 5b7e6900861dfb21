"""Manifest of a shard (NAME.json): source, recipe, versions, counts, checksums."""

import json
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from google_crc32c import extend

from im2rec_tools.errors import DataError, brief, error_line, quoted
from im2rec_tools.files import digest, write_text

# 2: crc32c in place of sha256, versions, bad images counted here and listed in NAME.bad.tsv.
# 1: first.
SCHEMA = 2
_MOST = 1 << 62
# Packages whose version affects the encoded images.
_DECIDING = ("simplejpeg", "opencv-python-headless")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Contents of NAME.json for NAME.rec.

    crc32c          of the whole .rec, eight hex digits
    records_crc32c  of each record with its frame, eight hex digits each
    smallest        least height and least width of its images; None in earlier manifests
    """

    schema: int
    list_sha256: str
    recipe: dict[str, Any]
    versions: dict[str, str]
    images: int
    bad: int
    bytes: int
    crc32c: str
    records_crc32c: str
    smallest: tuple[int, int] | None = None


@dataclass(kw_only=True)
class WrittenBytes:
    """Size and CRC of a shard so far, and the CRC of each record in hex digits."""

    size: int = 0
    crc32c: int = 0
    records: list[str] = field(default_factory=list)

    def add(self, framed: bytes) -> None:
        """Add a record, including its frame."""
        self.size += len(framed)
        self.crc32c = extend(self.crc32c, framed)
        self.records.append(f"{extend(0, framed):08x}")


def check_size(rec: Path, made: Manifest, fix: str) -> None:
    """Raise DataError, with this fix, if a shard has another size than its manifest."""
    found = rec.stat().st_size
    if found != made.bytes:
        problem = "truncated" if found < made.bytes else ""
        wanted, got = f"{made.bytes} bytes, as in the manifest", str(found)
        raise DataError(error_line(rec, expected=wanted, got=got, problem=problem, fix=fix))


def read(rec: Path) -> Manifest | None:
    """Read a shard's manifest; return None if there is none.

    Raises DataError for a bad manifest.
    """
    import msgspec  # noqa: PLC0415 - not needed to list the commands

    path = rec.with_suffix(".json")
    if not path.is_file():
        return None
    try:
        made = msgspec.json.decode(path.read_bytes())
        schema = made.get("schema") if isinstance(made, dict) else None
        if isinstance(schema, int) and schema != SCHEMA:
            raise DataError(
                error_line(
                    path,
                    expected=f"schema {SCHEMA}",
                    got=quoted(schema),
                    problem="another version of mxscale packed it",
                    fix="Move the shard away and pack it again",
                )
            )
        found = msgspec.convert(made, Manifest)
    except (ValueError, RecursionError) as error:  # msgspec's errors among them
        raise DataError(
            error_line(
                path,
                expected="the manifest of a shard",
                got=f"other data ({brief(error)})",
                fix="Move the shard away and pack it again",
            )
        ) from error
    except OSError as error:
        raise DataError(error_line(path, problem=f"cannot be read ({error.strerror})")) from error
    if not all(0 <= one < _MOST for one in (found.images, found.bad, found.bytes)):
        raise DataError(
            error_line(
                path,
                expected="the manifest of a shard",
                got="a count outside 0 to 2^62",
                fix="Move the shard away and pack it again",
            )
        )
    return found


def is_packed(made: Manifest, number: int, framed: bytes) -> bool:
    """Return whether these bytes, frame included, are the shard's n-th record."""
    return made.records_crc32c[8 * number : 8 * number + 8] == f"{extend(0, framed):08x}"


def text(manifest: Manifest) -> str:
    """Return the text of the file; `read` is the inverse."""
    known = {name: value for name, value in asdict(manifest).items() if value is not None}
    return json.dumps(known, indent=1) + "\n"


def add_smallest(rec: Path, smallest: tuple[int, int]) -> None:
    """Write the least height and width of its images to a shard's manifest."""
    made = read(rec)
    if made and made.smallest != smallest:
        write_text(rec.with_suffix(".json"), text(replace(made, smallest=smallest)))


def write(
    rec: Path, source: Path, recipe: dict[str, Any], written: WrittenBytes, bad: int = 0
) -> None:
    """Write the manifest of a shard made from `source`, a list or a record file."""
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
