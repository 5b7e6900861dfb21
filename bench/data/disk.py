"""Throughput of a disk: cold shards, in file order and in random order.

`python -m bench.data.disk DATA` prints it as JSON. No process changes anything but the page cache.
"""

import itertools
import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.data import page_cache
from bench.data.shards import places, shards
from bench.errors import SpecError
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import read_record

SECONDS = 5.0
# Threads that read records; the default of data_nthreads.
THREADS = 4
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class DiskThroughput:
    """Bytes read from cold shards, and the seconds that took.

    data_bytes, data_images  the whole data set
    cached                   share of it that stayed in the page cache; None if Linux hides it
    ordered_*                files read from the first byte on
    random_*                 whole records read in a random order by several threads
    """

    data_bytes: int
    data_images: int
    cached: float | None
    ordered_bytes: int
    ordered_seconds: float
    random_bytes: int
    random_images: int
    random_seconds: float


def measure(data: str, seconds: float = SECONDS) -> DiskThroughput:
    """Read cold shards for up to this time at random, and again in order.

    At random first, because that decides: a file server or a hypervisor may keep what was read.
    Raises SpecError if a shard is missing or damaged.
    """
    paths = shards(data)
    where = places(paths)
    cached = _dropped(paths)
    random = _read_at_random(paths, where, seconds)
    again = _dropped(paths)
    ordered = _read_in_order(paths, seconds)
    return DiskThroughput(
        data_bytes=sum(path.stat().st_size for path in paths),
        data_images=len(where),
        cached=None if cached is None or again is None else max(cached, again),
        ordered_bytes=ordered[0],
        ordered_seconds=ordered[1],
        random_bytes=random[0],
        random_images=random[1],
        random_seconds=random[2],
    )


def _dropped(paths: Sequence[Path]) -> float | None:
    """Drop the files from the page cache; return the share that stayed."""
    page_cache.drop(paths)
    left = page_cache.residency(paths)
    return None if left is None else left.cached / left.size


def _read_in_order(paths: Sequence[Path], limit: float) -> tuple[int, float]:
    """Return bytes and seconds."""
    began, done = time.perf_counter(), 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while time.perf_counter() - began < limit and (data := file.read(_BLOCK)):
                done += len(data)
    return done, time.perf_counter() - began


def _read_at_random(
    paths: Sequence[Path], where: "np.ndarray[tuple[int, int], np.dtype[np.int64]]", limit: float
) -> tuple[int, int, float]:
    """Return bytes, images and seconds."""
    order = np.random.default_rng(0).permutation(len(where))
    upcoming, lengths, problems = itertools.count(), list[int](), list[Exception]()
    began = time.perf_counter()

    def read() -> None:
        try:
            while time.perf_counter() - began < limit and (at := next(upcoming)) < len(order):
                file, offset, length = where[order[at]].tolist()
                read_record(paths[file], offset, length)
                lengths.append(length)
        except (DataError, OSError) as error:
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise SpecError(str(problems[0])) from problems[0]
    return sum(lengths), len(lengths), time.perf_counter() - began


def main() -> None:
    """Print the throughput of the disk below the data, as JSON."""
    print(json.dumps(asdict(measure(sys.argv[1]))))


if __name__ == "__main__":
    try:
        main()
    except (SpecError, OSError) as problem:
        sys.exit(str(problem))
