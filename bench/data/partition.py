"""Partitions of a data set: the shards of a host, the images of a worker."""

import hashlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.data.shards import count_images, shards, split_data
from bench.errors import SpecError, brief, error_line, quoted
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import frame, read_index, records
from im2rec_tools.formats.tree import SHARE_FILE
from im2rec_tools.packing import manifest

FILE = SHARE_FILE
SCHEMA = 1  # first
_UNREADABLE = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
_REPUSH = "Push the data again by 'fab hosts.push-data'"


@dataclass(frozen=True, kw_only=True)
class HostPartition:
    """A host's share of a data set.

    index   number of the share, from 0
    images  images per shard name, for every share of the set
    """

    index: int
    images: tuple[dict[str, int], ...]

    @property
    def label(self) -> str:
        """The share's name in texts, counted from 1: 'share 2 of 4'."""
        return f"share {self.index + 1} of {len(self.images)}"


@dataclass(frozen=True, kw_only=True)
class WorkerPartition:
    """The images of one worker: part `index` of `count` equal parts of these files.

    total   images of the files
    fewest  images of the worker with the smallest part
    epoch   images per epoch of all workers together
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
        """Index of the first image among all files."""
        return self.total * self.index // self.count

    @property
    def images(self) -> int:
        """Number of images; parts differ by at most one."""
        return self.total * (self.index + 1) // self.count - self.first


def text(share: HostPartition) -> str:
    """Return the content of a share's file; `read` is the inverse."""
    values = {"schema": SCHEMA, "index": share.index, "of": len(share.images)}
    return json.dumps(values | {"images": share.images}, indent=1) + "\n"


def read(folder: Path) -> HostPartition | None:
    """Read the share that a folder holds; None for a whole data set.

    Raises SpecError for an invalid description of a share.
    """
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        images = tuple({str(name): int(n) for name, n in one.items()} for one in values["images"])
        schema, index, of = values["schema"], int(values["index"]), int(values["of"])
    except (OSError, ArithmeticError, *_UNREADABLE) as error:
        raise SpecError(
            error_line(
                path,
                expected="the description of a share",
                got=f"an invalid one ({brief(error)})",
                fix=_REPUSH,
            )
        ) from error
    if schema != SCHEMA or of != len(images) or not 0 <= index < of:
        raise SpecError(
            error_line(
                path,
                expected=f"schema {SCHEMA} and a share of {len(images)}",
                got=f"schema {quoted(schema)} and share {quoted(index)} of {quoted(of)}",
                fix=_REPUSH,
            )
        )
    return HostPartition(index=index, images=images) if of > 1 else None


def worker_partition(data: str, rank: int, workers: int) -> WorkerPartition:
    """Return the partition of a worker: a part of the files, or of its host's share.

    A host's workers divide its share (MXSCALE_LOCAL). Raises SpecError if there are fewer shares
    than hosts, or this share is incomplete.
    """
    share, whole = _host_partition(data), whole_data(data)
    if share is None:
        return replace(whole, index=rank, count=workers, fewest=whole.total // workers)
    # The index of this worker on its host, and their number; set by launch.job.plan.
    index, of = map(int, os.environ.get("MXSCALE_LOCAL", "0/1").split("/"))
    if workers > of * len(share.images):
        raise SpecError(
            error_line(
                data,
                expected=f"shares for {workers} workers ({of} per host)",
                got=share.label,
                fix="Push the data for all hosts of the job, or use a folder with the whole set",
            )
        )
    _check(whole, share)
    fewest = min(sum(one.values()) // of for one in share.images)
    return replace(whole, index=index, count=of, fewest=fewest, epoch=fewest * workers)


def whole_data(data: str) -> WorkerPartition:
    """Return all images of `data` as the partition of a single worker."""
    paths = shards(data)
    images = count_images(paths)
    return WorkerPartition(
        data=data, paths=paths, index=0, count=1, total=images, fewest=images, epoch=images
    )


def _host_partition(data: str) -> HostPartition | None:
    parts = split_data(data)
    found = [share for share in map(read, parts) if share]
    if found and len(parts) > 1:
        raise SpecError(
            error_line(
                data, problem=f"one folder holds {found[0].label}", fix="Give that folder alone"
            )
        )
    return found[0] if found else None


def _check(found: WorkerPartition, share: HostPartition) -> None:
    """Raise SpecError unless these are exactly the shards of a share, with all images."""
    mine = share.images[share.index]
    for name in sorted({path.name for path in found.paths} ^ set(mine)):
        how = "lacks" if name in mine else "also holds"
        raise SpecError(
            error_line(
                found.data,
                problem=f"{share.label} {how} {name}",
                fix=(
                    f"{_REPUSH}, into a separate folder if this one holds other shards (or remove "
                    f"{FILE} if it holds them all)"
                ),
            )
        )
    if found.epoch != sum(mine.values()):
        raise SpecError(
            error_line(
                found.data,
                expected=f"{sum(mine.values())} images in {share.label}",
                got=found.epoch,
                fix=_REPUSH,
            )
        )


def lines(data: str) -> tuple[str, ...]:
    """Return a line for each shard of `data`: name, number of images, checksum.

    The checksum comes from the shard's manifest; without one, size and modification time replace
    it. Raises SpecError if a shard is missing, empty or truncated.
    """
    found = []
    for path in shards(data):
        count = count_images((path,))
        found.append(f"{path.name} {count} {_checksum(path, count)}")
    return tuple(found)


def data_hash(listed: Iterable[str]) -> str:
    """Return twelve hex digits over the lines of a job's data; '' if it reads none."""
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
        raise SpecError(
            error_line(
                beside, expected=f"the manifest of a shard ({error})", fix="Pack the shard again"
            )
        ) from error
    if size != status.st_size:
        raise SpecError(
            error_line(
                path,
                expected=f"{size} bytes (manifest)",
                got=status.st_size,
                fix="Pack the shard again",
            )
        )
    if images != count:
        raise SpecError(
            error_line(
                path.with_suffix(".idx"),
                expected=f"{images} images (manifest)",
                got=count,
                fix=f"Pack {path.name} again",
            )
        )
    return str(checksum)


def damage(data: str) -> list[str]:
    """Read the shards of `data` completely; return a line for each damaged one.

    Records are compared with the manifest's checksums and the index; without these, only the
    framing is checked. Images are not decoded.
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
                return f"{where}: modified after packing"
            if index is not None and [at for _, at in index[count : count + 1]] != [offset]:
                return f"{where}: the index {beside.name} lists a different position"
            count += 1
    except (DataError, OSError) as error:
        return str(error)
    listed = made.images if made else len(index) if index is not None else count
    return "" if count == listed else f"{rec}: expected {listed} records, got {count}"


def main() -> None:
    """Print the lines and the share of each given data set, as JSON.

    With --verify, exit with an error line if a shard was modified after packing.
    """
    found = []
    verify, names = sys.argv[1:2] == ["--verify"], sys.argv[1:]
    if verify:
        del names[0]
        if wrong := [line for data in names for line in damage(data)]:
            more = [f"more damaged shards: {len(wrong) - 3}"] if len(wrong) > 3 else []
            raise SpecError("; ".join([*wrong[:3], *more]))
    for data in names:
        share = read(Path(data)) if Path(data).is_dir() else None
        at = [share.index, len(share.images)] if share else None
        found.append({"lines": lines(data), "share": at})
    print(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except SpecError as problem:
        sys.exit(str(problem))
