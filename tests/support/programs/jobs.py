"""Small jobs under the real agent, with the simulated engine by default."""

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.events import Event
from bench.sweep import Sweep
from bench.trial import Trial, make
from launch.hosts import Host, this_machine
from launch.job.monitor import Deadlines
from launch.sweep import ClusterSetup, points, sweep
from results.progress import SweepUpdate
from results.record import Record
from results.store import Store

# Agents report suspended processes once per second.
SHORT = Deadlines(rendezvous=2.0, first_window=2.0, progress=2.0, progress_factor=1.5, ending=3.0)
MARK = "MXSCALE_TEST"
Updates = Generator[SweepUpdate]


def trial(*faults: str, **fields: Any) -> Trial:
    """Return a simulated job: 2 workers, 2 servers, 3 windows after 1 of warm-up."""
    base = {
        "engine": "fake",
        "network": "tiny",
        "batch_per_device": 4,
        "kvstore": "dist_sync",
        "devices": 2,
        "windows": 3,
        "precision": 0.0,
        "fake_seconds": [0.9, 0.5, 0.4, 0.5],
        "fake_faults": list(faults),
    }
    return make(base | fields)


def tiny(**fields: Any) -> Trial:
    """Return a network that MXNet trains in milliseconds."""
    base = {"network": "tiny", "batch_per_device": 4, "windows": 3, "image_shape": [3, 32, 32]}
    return make(base | {"precision": 0.0} | fields)


def photo_settings(photographs: Path, prefix: Path, *, epochs: int) -> dict[str, Any]:
    """Return the fields of a job that trains on the photographs and saves checkpoints."""
    return {
        "mode": "real",
        "num_classes": 10,
        "data_train": str(photographs / "train"),
        "rgb_std": [58.0, 57.0, 57.0],
        "windows": 0,
        "num_epochs": epochs,
        "batch_per_device": 12,
        "options": [f"--model-prefix={prefix}"],
    }


def stop_settings(photographs: Path, prefix: Path) -> dict[str, Any]:
    """Return the fields of a job that also validates, and stops early."""
    validation = {"data_val": str(photographs / "val"), "stop_accuracy": 0.2}
    return photo_settings(photographs, prefix, epochs=30) | validation


@contextmanager
def running(
    folder: Path,
    *trials: Trial,
    repeats: int = 1,
    deadlines: Deadlines = SHORT,
    hosts: tuple[Host, ...] = (),
) -> Iterator[Updates]:
    """Yield the updates of a sweep of these trials."""
    what = Sweep(name="t", description="", repeats=repeats, trials=trials, text="")
    where = ClusterSetup(hosts=hosts or (this_machine(),), deadlines=deadlines)
    store = Store(folder)
    with closing(store), closing(sweep(what, points(what, where), where, store)) as updates:
        yield updates


def measured(folder: Path, *trials: Trial, **how: Any) -> list[Record]:
    """Return the records of a sweep of these trials in order of execution."""
    with running(folder, *trials, **how) as updates:
        return [one for one in updates if isinstance(one, Record)]


def disturbed(updates: Updates, act: Callable[[], object]) -> tuple[Record, float]:
    """Call `act` at a job's first window; return its record and the seconds between."""
    acted = 0.0
    for update in updates:
        if isinstance(update, Event) and update.kind == "window" and not acted:
            act()
            acted = time.monotonic()
        if isinstance(update, Record):
            return update, time.monotonic() - acted
    raise AssertionError("no record")


def left_over() -> list[str]:
    """Return the pids of this test's processes that still run."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if mark in variables.split(b"\0"):
            found.append(entry.name)
    return found


def pid_of(role: str, index: int = 0) -> int:
    """Return the pid of a process of this test's job by its role, in order of start.

    Waits for it: between fork and exec a process has its parent's variables.
    """
    found: list[int] = []

    def is_there() -> bool:
        found.clear()
        for pid in sorted(map(int, left_over())):
            try:
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            if f"DMLC_ROLE={role}".encode() in variables:
                found.append(pid)
        return len(found) > index

    assert until(is_there, 20)
    return found[index]


def pid_of_rank(rank: int) -> int:
    """Return the pid of a worker of this test's job without a scheduler."""
    for pid in map(int, left_over()):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in variables:
            return pid
    raise AssertionError("no such worker")


def agents() -> list[int]:
    """Return the pids of this test's agents."""
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left_over()}
    return [int(pid) for pid, command in commands.items() if b"exec(__import__(" in command]


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether the condition becomes true within this time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()
