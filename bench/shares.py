"""Shares: the part of a data set's shards that a host holds, and what a worker reads of it."""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from bench.errors import SpecError, brief, quoted
from bench.shards import count_images, named, shards

FILE = "share.json"
SCHEMA = 1  # first
_UNREADABLE = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
_AGAIN = "push the data again with 'fab hosts.push-data'"


@dataclass(frozen=True, kw_only=True)
class Share:
    """Share `index` of a set: `images` by the name of each shard, for every share of the set."""

    index: int
    images: tuple[dict[str, int], ...]

    @property
    def said(self) -> str:
        """Which one it is, counted from 1, as a person reads it."""
        return f"share {self.index + 1} of {len(self.images)}"


@dataclass(frozen=True, kw_only=True)
class Portion:
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


def text(share: Share) -> str:
    """What the file beside a share's shards holds; `read` is its inverse."""
    values = {"schema": SCHEMA, "index": share.index, "of": len(share.images)}
    return json.dumps(values | {"images": share.images}, indent=1) + "\n"


def read(folder: Path) -> Share | None:
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
            f"{path}: not what a push of shares leaves ({brief(error)}); {_AGAIN}"
        ) from error
    if schema != SCHEMA or of != len(images) or not 0 <= index < of:
        raise SpecError(
            f"{path}: expected schema {SCHEMA} and a share of {len(images)}, found schema "
            f"{quoted(schema)} and share {quoted(index)} of {quoted(of)}; {_AGAIN}"
        )
    return Share(index=index, images=images) if of > 1 else None


def portion(data: str, rank: int, workers: int) -> Portion:
    """What a worker of a job reads: its part of the files, or of the share that its host holds.

    A host's workers part its share between them (MXSCALE_LOCAL). Raises SpecError where there are
    fewer shares than hosts, or this one is not whole.
    """
    share, whole = _share(data), all_of(data)
    if share is None:
        return replace(whole, index=rank, count=workers, fewest=whole.total // workers)
    index, of = _place()
    if workers > of * len(share.images):
        raise SpecError(
            f"{data}: holds {share.said}, too few for {workers} workers, {of} a host; push it for "
            f"as many hosts as the job has, or read a folder that holds all of it"
        )
    _check(whole, share)
    fewest = min(sum(one.values()) // of for one in share.images)
    return replace(whole, index=index, count=of, fewest=fewest, epoch=fewest * workers)


def _place() -> tuple[int, int]:
    """Which worker of its host this process is, and how many a host has; as launch.plan says it."""
    index, _, of = os.environ.get("MXSCALE_LOCAL", "0/1").partition("/")
    return int(index), int(of)


def all_of(data: str) -> Portion:
    """All that is there, for one worker alone, whatever share it is."""
    paths = shards(data)
    images = count_images(paths)
    return Portion(
        data=data, paths=paths, index=0, count=1, total=images, fewest=images, epoch=images
    )


def _share(data: str) -> Share | None:
    parts = named(data)
    found = [share for share in map(read, parts) if share]
    if found and len(parts) > 1:
        raise SpecError(f"{data}: has a folder that holds {found[0].said}; name that one alone")
    return found[0] if found else None


def _check(found: Portion, share: Share) -> None:
    """Raises SpecError unless these are just the shards of a share, with all their images."""
    mine = share.images[share.index]
    for name in sorted({path.name for path in found.paths} ^ set(mine)):
        how = "lacks" if name in mine else "holds, beside it,"
        raise SpecError(
            f"{found.data}: is {share.said}, and {how} {name}; {_AGAIN}, into a folder of its own "
            f"where this one holds other shards (or remove {FILE} if it holds them all)"
        )
    if found.epoch != sum(mine.values()):
        raise SpecError(
            f"{found.data}: is {share.said}, of {sum(mine.values())} images, and has "
            f"{found.epoch}; {_AGAIN}"
        )
