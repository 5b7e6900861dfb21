"""The training loop is the same for every framework, and loads none."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

from bench.data.loader import Buffer, Reader
from bench.engines.engine import Comm
from bench.statistics.stopwatch import WindowDelays
from bench.training import loop
from bench.training.backend import Backend
from bench.training.batch import BatchSlice
from bench.training.options import Options, parse
from tests.support.paths import ROOT

SHARED = (
    *("backend", "batch", "loop", "optimizer", "options", "progress", "startup", "validation"),
)
ALONE = f"""
import sys
for name in ("mxnet", "torch"):
    sys.modules[name] = None
import bench.data.loader, bench.engines.catalog
for name in {SHARED!r}:
    __import__(f"bench.training.{{name}}")
"""


def test_the_shared_loop_loads_no_framework() -> None:
    subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, check=True)


class Steps:
    """A framework that computes nothing; it notes what the loop asks of it."""

    def __init__(self, options: Options, workers: int = 1) -> None:
        self.options, self.rank, self.num_workers = options, 0, workers
        self.part = BatchSlice(first=0, count=4, whole=4 * workers)
        self.comm = Comm(name="ring", spans=workers > 1)
        self.batches, self.reader, self.delays = 0, Reader(), WindowDelays()
        self.done: list[Any] = []

    def buffer(self, size: int) -> Buffer:
        """Reads nothing."""
        raise NotImplementedError

    def load(self, buffer: Buffer) -> Any:
        """Reads nothing."""
        raise NotImplementedError

    def synthetic(self) -> Iterator[Any]:
        """Yield numbers as batches."""
        yield from range(1000)

    def step(self, batch: Any, number: int) -> Any:
        """Note the step; its loss is its batch."""
        self.done.append((batch, number))
        return batch

    def compute(self, batch: Any) -> None:
        """Note a probe."""
        self.done.append(batch)

    def wait(self) -> None:
        """Nothing is to wait for."""

    def loss(self, losses: Any) -> float:
        """Return the loss, which is the batch."""
        return float(losses)

    def hits(self) -> tuple[int, int] | None:
        """Count nothing."""
        return None

    def scores(self, buffer: Buffer) -> Any:
        """Score nothing."""
        return np.zeros((0, 1))

    def seed(self, seed: int) -> None:
        """Draw nothing."""

    def rate(self, epochs: float) -> float:
        """Return a rate."""
        return 0.1

    def digest(self) -> str:
        """Return a hash."""
        return "abc"

    def barrier(self) -> None:
        """Note the meeting."""
        self.done.append("met")

    def broadcast(self, number: int, value: float) -> float:
        """Note what the first worker decides: to stop after two windows."""
        self.done.append(f"window {number}")
        return float(number >= 2)

    def any_worker(self, number: int, vote: bool) -> bool:
        """Return the vote."""
        return vote

    def sums(self, number: int, values: Sequence[int]) -> tuple[int, ...]:
        """Return the values."""
        return tuple(values)

    def facts(self) -> dict[str, Any]:
        """Return no facts."""
        return {}

    def wire_bytes(self) -> int:
        """Return bytes that no link carries in time."""
        return 10**12

    def device_memory(self) -> dict[str, int]:
        """Return the memory of a GPU."""
        return {"peak_device_memory_bytes": 7}

    def check_saving(self) -> None:
        """Nothing is saved."""

    def save(self, epoch: int, batches: int) -> str:
        """Save nothing."""
        return ""

    def profile(self) -> AbstractContextManager[None]:
        """Profile nothing."""
        return nullcontext()

    def start_trace(self) -> None:
        """Note the start of a profile."""
        self.done.append("start")

    def stop_trace(self) -> None:
        """Note its end."""
        self.done.append("stop")


WORDS = [
    *("--network=tiny", "--benchmark=1", "--batch-size=4", "--warmup-windows=1"),
    *("--steps-per-window=2", "--num-classes=10"),
]


def run(workers: int, *words: str) -> tuple[loop.TrainingSummary, list[Any]]:
    built: list[Steps] = []

    def build(options: Options) -> Backend:
        built.append(Steps(options, workers))
        return built[0]

    return loop.train(parse([*WORDS, *words]), build), built[0].done


def test_the_loop_asks_a_framework_for_steps_only() -> None:
    summary, done = run(1, "--windows=2", "--precision=0")
    assert done == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert [window["loss"] for window in summary.windows] == [1.0, 3.0, 5.0]
    assert (summary.weight_hash, summary.ended) == ("abc", "windows")
    assert summary.device_memory == {"peak_device_memory_bytes": 7}


def test_workers_that_wait_for_each_other_are_probed_and_stop_together() -> None:
    summary, done = run(2, "--windows=9", "--precision=0.5", "--kv-store=dist_sync")
    assert [one for one in done if isinstance(one, str)] == ["met", "window 1", "met", "window 2"]
    probes = [one for one in done if isinstance(one, int)]
    # A probe takes the first batch of its window.
    assert probes == [2, 4]
    assert [batch for batch, _ in (one for one in done if isinstance(one, tuple))] == [*range(6)]
    assert summary.ended == "precision"


def test_a_profile_begins_and_ends_with_its_steps() -> None:
    words = ("--windows=2", "--precision=0", "--profile-worker-suffix=x", "--profile-batches=3:4")
    _, done = run(1, *words)
    assert done[2:6] == ["start", (2, 3), (3, 4), "stop"]


@pytest.mark.parametrize("loss", [float("inf"), float("nan")])
def test_a_loss_that_is_no_number_ends_the_job(
    loss: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Steps, "loss", lambda *_: loss)
    with pytest.raises(FloatingPointError, match="loss: expected a finite number"):
        run(1, "--windows=2")
