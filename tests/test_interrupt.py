"""However the master ends, nothing of ours is left, and the sweep goes on from there."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from results.store import read
from tests.jobs import left_over, until

ROOT = Path(__file__).parent.parent
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
HANG = "fake_faults = ['worker-1:hang@1']\n"


def sweeping(sweep: Path, run: Path) -> list[str]:
    return [str(Path(sys.executable).parent / "fab"), "bench.sweep", str(sweep), "--run", str(run)]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_an_ended_master_leaves_no_process_and_a_store_to_go_on_with(
    tmp_path: Path, number: int, code: int
) -> None:
    sweep, run = tmp_path / "mine.toml", tmp_path / "run"
    sweep.write_text(SWEEP + HANG)
    command = sweeping(sweep, run)
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as master:
        # master, agent, scheduler, two servers, two workers of the point that hangs
        assert until(lambda: run.is_dir() and len(read(run)) == 2 and len(left_over()) == 7, 30)
        os.kill(master.pid, number)
        assert master.wait(10) == code
        assert until(lambda: left_over() == [], 10)
        assert master.stderr is not None
        said = master.stderr.read()
    assert "Traceback" not in said
    if number == signal.SIGINT:
        assert "interrupted; what was measured is kept, run it again to go on" in said
    assert [record.status for record in read(run)] == ["ok", "ok"]
    sweep.write_text(SWEEP)
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert [record.trial.devices for record in read(run)] == [1, 2]


@pytest.mark.slow
def test_twenty_interrupts_at_random_moments_change_no_record(tmp_path: Path) -> None:
    draw, sweep, run = random.Random(7), tmp_path / "mine.toml", tmp_path / "run"
    devices = ", ".join(map(str, range(1, 7)))
    sweep.write_text(SWEEP.replace("[1, 2]", f"[{devices}]").replace("repeats = 1", "repeats = 6"))
    quiet = subprocess.run(
        sweeping(sweep, tmp_path / "quiet"), cwd=ROOT, capture_output=True, check=False
    )
    assert quiet.returncode == 0
    for _ in range(20):
        with subprocess.Popen(
            sweeping(sweep, run), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as master:
            time.sleep(draw.uniform(0.2, 3.0))
            master.send_signal(draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
            master.wait(10)
        assert until(lambda: left_over() == [], 10)
    again = subprocess.run(sweeping(sweep, run), cwd=ROOT, capture_output=True, check=False)
    assert again.returncode == 0
    identities = [record.identity for record in read(run)]
    assert len(set(identities)) == len(identities)
    assert set(identities) == {record.identity for record in read(tmp_path / "quiet")}
