"""What all records of a run say; a large log is read by as many processes as there are cores."""

import gc
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from results.errors import StoreError
from results.measured import Measured, measured
from results.record import parse_bare
from results.store import UNREADABLE, Unread, lines_of, log_of

# Below this, processes take longer to start than to read.
_LARGE = 64 << 20
_PART = 16 << 20


def reading(folder: Path) -> Iterator[Measured | Unread]:
    """What each record says, oldest first, and which lines hold none that can be used.

    StoreError where there is no such folder or its log cannot be read.
    """
    log = log_of(folder)
    size = log.stat().st_size if log.exists() else 0
    if size < _LARGE:
        yield from _part(log, 0, size)
    else:
        yield from _side_by_side(log, size)


def _part(log: Path, begin: int, end: int) -> list[Measured | Unread]:
    found: list[Measured | Unread] = []
    for number, one in lines_of(log, parse_bare, begin, end):
        try:
            found.append(one if isinstance(one, Unread) else measured(one))
        except UNREADABLE as error:  # its fields are of the right kind, but mean nothing together
            found.append(Unread(log=log, line=number, reason=str(error)))
    return found


def _side_by_side(log: Path, size: int) -> Iterator[Measured | Unread]:
    begins = _begins(log, size)
    cores = len(os.sched_getaffinity(0))
    context = get_context("forkserver")
    try:
        with ProcessPoolExecutor(cores, context, _uninterrupted) as pool:
            ends = [*begins[1:], size]
            parts = pool.map(_part, [log] * len(begins), begins, ends)
            for begin, part in zip(begins, parts, strict=True):
                yield from (_placed(one, begin) for one in part)
    except BrokenProcessPool as error:
        raise StoreError(
            f"{log}: a process that read it was killed, as happens where memory runs out"
        ) from error


def _uninterrupted() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the master ends them
    gc.disable()  # records hold no cycles, and millions of numbers


def _begins(log: Path, size: int) -> list[int]:
    """Where a line begins, about every so many bytes."""
    found = [0]
    with log.open("rb") as file:
        while found[-1] + _PART < size:
            file.seek(found[-1] + _PART)
            file.readline()
            found.append(file.tell())
    return [begin for begin in found if begin < size]


def _placed(one: Measured | Unread, begin: int) -> Measured | Unread:
    """With its line counted from the first of the log."""
    if begin == 0 or not isinstance(one, Unread):
        return one
    with one.log.open("rb") as file:
        return replace(one, line=one.line + file.read(begin).count(b"\n"))
