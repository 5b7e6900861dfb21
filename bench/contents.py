"""What the data of a job are: a line for each shard, by which data on hosts are compared."""

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.errors import SpecError
from bench.shards import count_images, shards
from bench.shares import read


def lines(data: str) -> tuple[str, ...]:
    """Name, images and checksum of each shard of `data`.

    The checksum that the packer left beside a shard stands for it; its size and time of change do
    where there is none. Raises SpecError where a shard is missing, empty or cut off.
    """
    found = []
    for path in shards(data):
        count = count_images((path,))
        found.append(f"{path.name} {count} {_checksum(path, count)}")
    return tuple(found)


def manifest(listed: Iterable[str]) -> str:
    """Twelve hex digits over the lines of all data of a job, empty where it reads none."""
    text = "".join(listed)
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else ""


def _checksum(path: Path, count: int) -> str:
    beside = path.with_suffix(".json")
    status = path.stat()
    if not beside.is_file():
        return f"{status.st_size} {status.st_mtime_ns}"
    try:
        made = json.loads(beside.read_text(encoding="utf-8"))
        images, size, checksum = made["images"], made["bytes"], made["crc32c"]
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(f"{beside}: not a manifest of a shard: {error}") from error
    if size != status.st_size:
        raise SpecError(
            f"{path}: its manifest says {size} bytes, it has {status.st_size}; pack it again"
        )
    if images != count:
        raise SpecError(
            f"{path.with_suffix('.idx')}: lists {count} images, the manifest says {images}; pack "
            f"{path.name} again"
        )
    return str(checksum)


def main() -> None:
    """Prints, of each data named, its lines and which share of how many it is, as JSON."""
    said = []
    for data in sys.argv[1:]:
        share = read(Path(data)) if Path(data).is_dir() else None
        at = [share.index, len(share.images)] if share else None
        said.append({"lines": lines(data), "share": at})
    print(json.dumps(said))


if __name__ == "__main__":
    try:
        main()
    except SpecError as problem:
        sys.exit(str(problem))
