"""What the data of a job are: a line for each shard, by which data on hosts are compared."""

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.errors import SpecError
from bench.shards import count_images, shards
from bench.shares import read
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import frame, read_index, records
from im2rec_tools.packing import manifest as packed


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


def damage(data: str) -> list[str]:
    """What is wrong with the shards of `data`, each read whole; a line for each wrong one.

    Records are compared with the checksums that the packer left and with the index, without which
    only their framing is checked. Images are not decoded.
    """
    return [why for path in shards(data) if (why := _damage(path))]


def _damage(rec: Path) -> str:
    try:
        made = packed.read(rec)
        beside = rec.with_suffix(".idx")
        index = read_index(beside) if beside.is_file() else None
        count = 0
        for offset, payload in records(rec):
            where = f"{rec}: record {count} at byte {offset}"
            if made and not packed.is_packed(made, count, frame(payload)):
                return f"{where}: differs from what was packed"
            if index is not None and [at for _, at in index[count : count + 1]] != [offset]:
                return f"{where}: its index {beside.name} lists another place"
            count += 1
    except (DataError, OSError) as error:
        return str(error)
    listed = made.images if made else len(index) if index is not None else count
    return "" if count == listed else f"{rec}: holds {count} records, expected {listed}"


def main() -> None:
    """Prints, of each data named, its lines and which share of how many it is, as JSON.

    After --verify, exits with what is wrong if a shard that is named is not as it was packed.
    """
    said = []
    verify, names = sys.argv[1:2] == ["--verify"], sys.argv[1:]
    if verify:
        del names[0]
        if wrong := [line for data in names for line in damage(data)]:
            more = f" (and {len(wrong) - 3} more shards)" if len(wrong) > 3 else ""
            raise SpecError("; ".join(wrong[:3]) + more)
    for data in names:
        share = read(Path(data)) if Path(data).is_dir() else None
        at = [share.index, len(share.images)] if share else None
        said.append({"lines": lines(data), "share": at})
    print(json.dumps(said))


if __name__ == "__main__":
    try:
        main()
    except SpecError as problem:
        sys.exit(str(problem))
