"""Packs listed images into RecordIO shards, a process a shard."""

import hashlib
import json
import multiprocessing
import os
import select
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from im2rec_tools import listing
from im2rec_tools.codec import Recipe, encode
from im2rec_tools.errors import DataError
from im2rec_tools.files import whole, write_whole
from im2rec_tools.recordio import ImageRecord, frame, pack

# 1: first.
SCHEMA = 1
_POLL_SECONDS = 0.1
_packed: Any = None  # the counter that all packing processes share; set as each starts


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Images packed or found bad so far, of `total`."""

    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What stands beside a shard as NAME.json; `bad` has path and cause of each image left out."""

    schema: int
    list_sha256: str
    recipe: dict[str, Any]
    images: int
    bytes: int
    sha256: str
    bad: list[list[str]]


def manifest(rec: Path) -> Manifest | None:
    """The manifest of a shard, None where there is none; DataError where it is not one."""
    path = rec.with_suffix(".json")
    if not path.is_file():
        return None
    try:
        return Manifest(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: not a manifest of a shard: {error}") from error


def pack_lists(lists: Sequence[Path], root: Path, folder: Path, recipe: Recipe) -> Iterator[Packed]:
    """Packs each .lst into NAME.rec, .idx and .json in `folder`, several at a time.

    A shard that is there already, of the same list by the same recipe, is left as it is. Unreadable
    images are left out and stand in the manifest. Raises DataError where a shard has none left.
    """
    left = [path for path in lists if not _is_packed(path, folder, recipe)]
    total = sum(len(listing.read(path)) for path in left)
    yield Packed(done=0, total=total)
    if not left:
        return
    # A progress bar's thread forbids a plain fork; the server loads the codecs once for all.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    counter = context.Value("q", 0)
    processes = min(len(left), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(
        processes, context, initializer=_share, initargs=(counter, os.getpid())
    ) as pool:
        futures = [pool.submit(_pack_one, path, root, folder, recipe) for path in left]
        while not all(future.done() for future in futures):
            yield Packed(done=counter.value, total=total)
            time.sleep(_POLL_SECONDS)
        for future in futures:
            future.result()
    yield Packed(done=total, total=total)


def shard_of(lst: Path, folder: Path) -> Path:
    """The .rec that a list is packed into."""
    return folder / f"{lst.stem}.rec"


def _is_packed(lst: Path, folder: Path, recipe: Recipe) -> bool:
    rec = shard_of(lst, folder)
    made = manifest(rec)
    return (
        made is not None
        and rec.is_file()
        and rec.stat().st_size == made.bytes
        and made.list_sha256 == hashlib.sha256(lst.read_bytes()).hexdigest()
        and made.recipe == asdict(recipe)
    )


def _share(counter: Any, master: int) -> None:
    global _packed  # noqa: PLW0603 - how a pool's processes come by what they share
    _packed = counter
    threading.Thread(target=_end_with, args=(master,), daemon=True).start()


def _end_with(master: int) -> None:
    """Ends this process when the one that packs has ended, however that came."""
    try:
        watched = os.pidfd_open(master)
    except ProcessLookupError:
        os._exit(1)
    select.select([watched], [], [])
    os._exit(1)


def _pack_one(lst: Path, root: Path, folder: Path, recipe: Recipe) -> None:
    rec = shard_of(lst, folder)
    bad: list[list[str]] = []
    index: list[str] = []
    digest, offset = hashlib.sha256(), 0
    with whole(rec) as file:
        for entry in listing.read(lst):
            try:
                image = encode((root / entry.path).read_bytes(), recipe)
            except (OSError, DataError) as error:
                bad.append([entry.path, str(error)])
            else:
                record = ImageRecord(index=entry.index, label=entry.label, image=image)
                framed = frame(pack(record))
                file.write(framed)
                digest.update(framed)
                index.append(f"{entry.index}\t{offset}\n")
                offset += len(framed)
            with _packed.get_lock():
                _packed.value += 1
        if not index:
            raise DataError(f"{lst}: none of its images could be read; first: {' '.join(bad[0])}")
    write_whole(rec.with_suffix(".idx"), "".join(index))
    made = Manifest(
        schema=SCHEMA,
        list_sha256=hashlib.sha256(lst.read_bytes()).hexdigest(),
        recipe=asdict(recipe),
        images=len(index),
        bytes=offset,
        sha256=digest.hexdigest(),
        bad=bad,
    )
    write_whole(rec.with_suffix(".json"), json.dumps(asdict(made), indent=1) + "\n")
