"""Packing that is killed, interrupted, or loses a process."""

import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest

from im2rec_tools.errors import DataError
from im2rec_tools.listing import Entry
from tests.jobs import left_over, until
from tests.test_pack import listed, pack
from tests.trees import jpeg, tree

pytestmark = pytest.mark.program
ROOT = Path(__file__).parent.parent


def test_a_packing_process_that_dies_ends_the_run_with_its_file(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    (root / "big.jpg").write_bytes(jpeg(6000, 8000))
    entries = [Entry(index=n, labels=(0.0,), path="big.jpg") for n in range(200)]
    lst = listed(tmp_path, entries)

    def kill() -> None:
        assert until(lambda: len(encoders()) == 2, 10)
        time.sleep(1)
        os.kill(encoders()[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(DataError, match=r"a process has died \(SIGKILL\) on big\.jpg; .* run it a"):
        pack(lst, root, tmp_path / "out")
    killer.join()
    assert until(lambda: encoders() == [], 5)
    assert not (tmp_path / "out").exists()


def encoders() -> list[int]:
    """Pids of our packing processes: children of this process's fork server."""
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    children = Path(f"/proc/{server}/task/{server}/children")
    return [int(pid) for pid in children.read_text().split()] if server else []


def packing(prefix: Path, root: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "im2rec_tools.pack", str(prefix), str(root), "--chunks", "4"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def killed_at_moments(tmp_path: Path, moments: list[float]) -> None:
    root = tree(tmp_path / "t", {"cat": 300, "dog": 300})
    whole, torn = tmp_path / "whole" / "x", tmp_path / "torn" / "x"
    with packing(whole, root) as done:
        assert done.wait(60) == 0
    for seconds in moments:
        with packing(torn, root) as process:
            time.sleep(seconds)
            process.kill()
        assert until(lambda: left_over() == [], 10)
    with packing(torn, root) as done:
        _, said = done.communicate(timeout=60)
    assert (done.returncode, b"Traceback" in said) == (0, False)
    names = sorted(path.name for path in whole.parent.iterdir())
    assert names == sorted(path.name for path in torn.parent.iterdir())
    for name in names:
        assert (whole.parent / name).read_bytes() == (torn.parent / name).read_bytes()


def test_a_killed_run_goes_on_and_makes_the_same_bytes(tmp_path: Path) -> None:
    killed_at_moments(tmp_path, [0.4, 0.55, 0.7])


@pytest.mark.slow
def test_a_run_killed_twenty_times_goes_on_and_makes_the_same_bytes(tmp_path: Path) -> None:
    killed_at_moments(tmp_path, [0.3 + 0.03 * n for n in range(20)])


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 2000})
    with packing(tmp_path / "x", root) as process:
        assert until(lambda: len(list(tmp_path.glob("*.json"))) > 0, 20)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
    assert process.returncode == 130
    assert said.splitlines()[-1].startswith(b"interrupted; what is finished is kept")
    assert until(lambda: left_over() == [], 10)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
