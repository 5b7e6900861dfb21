"""Trials run on this machine, for what happens meanwhile; nothing of them is kept."""

import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

from bench.events import Event
from bench.sweep import Sweep
from bench.trial import Trial
from launch.hosts import this_machine
from launch.sweep import ClusterSetup, points, sweep
from results.progress import JobProgress
from results.record import Record, RepeatStart
from results.store import Store


def running(
    *trials: Trial, repeats: int = 1
) -> Generator[RepeatStart | Event | JobProgress | Record]:
    """The updates of these trials, all of them once and then again."""
    what = Sweep(name="benchmark", description="", repeats=repeats, trials=trials, text="")
    where = ClusterSetup(hosts=(this_machine(),))
    with tempfile.TemporaryDirectory() as folder, closing(Store(Path(folder))) as store:
        yield from sweep(what, points(what, where), where, store)


def records(*trials: Trial, repeats: int = 1) -> list[Record]:
    """The records of these trials, in the order they were made."""
    return [one for one in running(*trials, repeats=repeats) if isinstance(one, Record)]
