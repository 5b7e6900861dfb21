"""Partitions of a data set: the shards of a host, the images of a worker."""

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.data.shards import count_images, shards, split_data
from bench.errors import SpecError, brief, quoted
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import frame, read_index, records
from im2rec_tools.packing import manifest

FILE = "share.json"
SCHEMA = 1  # first
_UNREADABLE = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
_REPUSH = "push the data again with 'fab hosts.push-data'"


@dataclass(frozen=True, kw_only=True)
class HostPartition:
    """Share `index` of a set: `images` by the name of each shard, for every share of the set."""

    index: int
    images: tuple[dict[str, int], ...]

    @property
    def label(self) -> str:
        """Which one it is, counted from 1, as a person reads it."""
        return f"share {self.index + 1} of {len(self.images)}"


@dataclass(frozen=True, kw_only=True)
class WorkerPartition:
    """What one worker reads: part `index` of `count` equal parts of these files' images.

    total   images of the files
    fewest  images of the worker of the job that gets fewest
    epoch   images that all workers together train in an epoch
    """

    data: str
    paths: tuple[Path, ...]
    index: int
    count: int
    total: int
    fewest: int
    epoch: int

    @property
    def first(self) -> int:
        """The place of its first image among all of the files."""
        return self.total * self.index // self.count

    @property
    def images(self) -> int:
        """How many images it has; parts differ by one at most."""
        return self.total * (self.index + 1) // self.count - self.first


def text(share: HostPartition) -> str:
    """What the file beside a share's shards holds; `read` is its inverse."""
    values = {"schema": SCHEMA, "index": share.index, "of": len(share.images)}
    return json.dumps(values | {"images": share.images}, indent=1) + "\n"


def read(folder: Path) -> HostPartition | None:
    """The share that a folder holds; None where it holds all of its set. Raises SpecError."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        images = tuple({str(name): int(n) for name, n in one.items()} for one in values["images"])
        schema, index, of = values["schema"], int(values["index"]), int(values["of"])
    except (OSError, ArithmeticError, *_UNREADABLE) as error:
        raise SpecError(
            f"{path}: not what a push of shares leaves ({brief(error)}); {_REPUSH}"
        ) from error
    if schema != SCHEMA or of != len(images) or not 0 <= index < of:
        raise SpecError(
            f"{path}: expected schema {SCHEMA} and a share of {len(images)}, found schema "
            f"{quoted(schema)} and share {quoted(index)} of {quoted(of)}; {_REPUSH}"
        )
    return HostPartition(index=index, images=images) if of > 1 else None


def worker_partition(data: str, rank: int, workers: int) -> WorkerPartition:
    """What a worker of a job reads: its part of the files, or of the share that its host holds.

    A host's workers part its share between them (MXSCALE_LOCAL). Raises SpecError where there are
    fewer shares than hosts, or this one is not whole.
    """
    share, whole = _host_partition(data), whole_data(data)
    if share is None:
        return replace(whole, index=rank, count=workers, fewest=whole.total // workers)
    # Which worker of its host this process is, of how many; by launch.job.plan.
    index, of = map(int, os.environ.get("MXSCALE_LOCAL", "0/1").split("/"))
    if workers > of * len(share.images):
        raise SpecError(
            f"{data}: holds {share.label}, too few for {workers} workers, {of} a host; push it for "
            f"as many hosts as the job has, or read a folder that holds all of it"
        )
    _check(whole, share)
    fewest = min(sum(one.values()) // of for one in share.images)
    return replace(whole, index=index, count=of, fewest=fewest, epoch=fewest * workers)


def whole_data(data: str) -> WorkerPartition:
    """All that is there, for one worker alone, whatever share it is."""
    paths = shards(data)
    images = count_images(paths)
    return WorkerPartition(
        data=data, paths=paths, index=0, count=1, total=images, fewest=images, epoch=images
    )


def _host_partition(data: str) -> HostPartition | None:
    parts = split_data(data)
    found = [share for share in map(read, parts) if share]
    if found and len(parts) > 1:
        raise SpecError(f"{data}: has a folder that holds {found[0].label}; name that one alone")
    return found[0] if found else None


def _check(found: WorkerPartition, share: HostPartition) -> None:
    """Raises SpecError unless these are just the shards of a share, with all their images."""
    mine = share.images[share.index]
    for name in sorted({path.name for path in found.paths} ^ set(mine)):
        how = "lacks" if name in mine else "holds, beside it,"
        raise SpecError(
            f"{found.data}: is {share.label}, and {how} {name}; {_REPUSH}, into a folder of its "
            f"own where this one holds other shards (or remove {FILE} if it holds them all)"
        )
    if found.epoch != sum(mine.values()):
        raise SpecError(
            f"{found.data}: is {share.label}, of {sum(mine.values())} images, and has "
            f"{found.epoch}; {_REPUSH}"
        )


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


def data_hash(listed: Iterable[str]) -> str:
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
        made = manifest.read(rec)
        beside = rec.with_suffix(".idx")
        index = read_index(beside) if beside.is_file() else None
        count = 0
        for offset, payload in records(rec):
            where = f"{rec}: record {count} at byte {offset}"
            if made and not manifest.is_packed(made, count, frame(payload)):
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
