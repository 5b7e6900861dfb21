"""An interrupted controller leaves no process, and the sweep resumes."""

import os
import random
import signal
import subprocess
import sys
import time
from itertools import groupby
from pathlib import Path

import pytest
from invoke.context import Context

from bench.sweep import load_sweep
from results.record import Identity
from results.store import read_records
from tasks.bench import bench_sweep
from tests.support.paths import ROOT
from tests.support.programs.jobs import left_over, until
from tests.support.repeats import slow

pytestmark = pytest.mark.program
SWEEP = """
engine = "fake"
repeats = 1
network = "tiny"
batch_per_device = 4
windows = 2
[[points]]
kvstore = "dist_sync"
devices = [1, 2]
[[points]]
kvstore = "dist_sync"
devices = 2
"""
QUICK = SWEEP.replace("windows = 2", "windows = 2\nfake_seconds = [0.2]")
HANG = "fake_faults = ['worker-0:hang@1', 'worker-1:hang@1']\n"


def sweeping(sweep: Path, run: Path) -> list[str]:
    return [str(Path(sys.executable).parent / "fab"), "bench.sweep", str(sweep), "--run", str(run)]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGKILL, -9),
        # As an interrupt; tests of tasks have all three.
        *slow((signal.SIGTERM, 143), (signal.SIGHUP, 129)),
    ],
)
def test_an_ended_master_leaves_no_process_and_a_store_to_go_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.chdir(ROOT)
    sweep, run = tmp_path / "mine.toml", tmp_path / "run"
    sweep.write_text(QUICK + HANG)
    command = [*sweeping(sweep, run), "--in-order"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as master:
        # master, agent, scheduler, two servers, two workers of the point that hangs
        seen: list[tuple[int, int]] = []

        def hangs() -> bool:
            seen.append((len(read_records(run)) if run.is_dir() else 0, len(left_over())))
            return seen[-1] == (2, 7)

        assert until(hangs, 30), f"records and processes: {[key for key, _ in groupby(seen)]}"
        os.kill(master.pid, number)
        assert master.wait(10) == code
        assert until(lambda: left_over() == [], 10)
        assert master.stderr is not None
        said = master.stderr.read()
    assert "Traceback" not in said
    if number == signal.SIGINT:
        assert "interrupted; finished work is kept. Run the command again to continue" in said
    assert [record.status for record in read_records(run)] == ["ok", "ok"]
    sweep.write_text(QUICK)
    bench_sweep.body(Context(), str(sweep), [], run=str(run))
    assert [record.trial.layout.devices for record in read_records(run)] == [1, 2]


def disturbed(sweep: Path, run: Path, draw: random.Random, numbers: list[int]) -> None:
    """Send a sweep one of these signals at a random time; no process may remain."""
    with subprocess.Popen(
        sweeping(sweep, run), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as master:
        time.sleep(draw.uniform(0.2, 2.5))
        number = draw.choice(numbers)
        master.send_signal(number)
        code = master.wait(10)
    # before fab has loaded its tasks, an interrupt ends Python itself
    expected = {-number} if number == signal.SIGKILL else {128 + number, -number}
    assert code in expected | {0}
    assert until(lambda: left_over() == [], 10)


def completed(sweep: Path, run: Path) -> list[Identity]:
    """Return the content of the run after the sweep has resumed and ended."""
    again = subprocess.run(sweeping(sweep, run), cwd=ROOT, capture_output=True, check=False)
    assert again.returncode == 0
    return [record.identity for record in read_records(run)]


def expected(sweep: Path) -> set[tuple[str, int]]:
    """Return the keys of points and repeats of an undisturbed sweep."""
    what = load_sweep(str(sweep))
    return {(trial.key, repeat) for trial in what.trials for repeat in range(what.repeats)}


@pytest.mark.parametrize(
    ("times", "signals"),
    [
        (2, "INT TERM KILL"),
        *slow((50, "INT TERM KILL"), (20, "KILL")),
    ],
)
def test_a_sweep_that_is_ended_again_and_again_loses_and_doubles_nothing(
    tmp_path: Path, times: int, signals: str
) -> None:
    draw, sweep = random.Random(times), tmp_path / "mine.toml"
    sweep.write_text(
        SWEEP.replace("[1, 2]", "[1, 2, 3]" if times > 2 else "[1, 2]").replace(
            "s = 1", f"s = {times}"
        )
    )
    for _ in range(times):
        disturbed(
            sweep, tmp_path / "run", draw, [signal.Signals[f"SIG{s}"] for s in signals.split()]
        )
    found = completed(sweep, tmp_path / "run")
    assert len(set(found)) == len(found)
    assert {(one.key, one.repeat) for one in found} == expected(sweep)
