"""Packing that is killed, interrupted, or loses a process."""

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from im2rec_tools.errors import DataError
from im2rec_tools.formats.lists import Entry
from tests.support.data.datasets import listed, pack
from tests.support.data.trees import jpeg, tree
from tests.support.paths import ROOT
from tests.support.programs.jobs import left_over, until
from tests.support.repeats import slow

pytestmark = pytest.mark.program


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
    with pytest.raises(DataError, match=r"process: died \(SIGKILL\) on big\.jpg; .* Run the c"):
        pack(lst, root, tmp_path / "out")
    killer.join()
    assert until(lambda: encoders() == [], 5)
    assert not (tmp_path / "out").exists()


def encoders() -> list[int]:
    """Return the pids of packing processes, children of this process's fork server."""
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    children = Path(f"/proc/{server}/task/{server}/children")
    return [int(pid) for pid in children.read_text().split()] if server else []


def packing(prefix: Path, root: Path) -> "subprocess.Popen[bytes]":
    command = [
        sys.executable,
        "-m",
        "im2rec_tools",
        "pack",
        str(prefix),
        str(root),
        "--chunks",
        "4",
    ]
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
    assert said.splitlines()[-1].startswith(b"interrupted; finished work is kept")
    assert until(lambda: left_over() == [], 10)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def refused(words: Sequence[object], **started: Any) -> list[str]:
    """Return stderr of a Python program that ends with exit code 2 and no traceback."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **started,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    lines: list[str] = done.stderr.splitlines()
    return lines


STARTS = """
import multiprocessing.forkserver, sys
from im2rec_tools.cli import run_command
from im2rec_tools.declarations import COMMANDS

def ensure_running(self):
    {fault}

if __name__ == "__main__":
    multiprocessing.forkserver.ForkServer.ensure_running = ensure_running
    multiprocessing.forkserver.ensure_running = ensure_running.__get__(
        multiprocessing.forkserver._forkserver)
    sys.exit(run_command(COMMANDS[sys.argv[1]], sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "fault",
    [
        "self._forkserver_address = '/nowhere/socket'; self._forkserver_alive_fd = 0",
        "raise ConnectionRefusedError(111, 'Connection refused')",
        "raise BrokenPipeError(32, 'Broken pipe')",
        "raise BlockingIOError(11, 'Resource temporarily unavailable')",
        "raise EOFError",
    ],
)
@pytest.mark.parametrize("command", ["pack", "verify"])
def test_processes_that_cannot_start_are_one_line(tmp_path: Path, command: str, fault: str) -> None:
    root = tree(tmp_path / "t", {"cat": 3})
    pack(listed(tmp_path, [Entry(index=0, labels=(0.0,), path="cat/0.jpg")]), root, tmp_path / "o")
    program = tmp_path / "program.py"
    program.write_text(STARTS.format(fault=fault))
    words = {"pack": [tmp_path / "x", root], "verify": [tmp_path / "o"]}[command]
    error = refused([program, command, *words], env={**os.environ, "PYTHONPATH": str(ROOT)})[-1]
    assert error.startswith("error: process 1 of ")
    assert "cannot be started" in error


@pytest.mark.parametrize("at", [0.0, *slow(0.4, 0.8)])
def test_a_fork_server_that_dies_ends_the_run_with_one_line(tmp_path: Path, at: float) -> None:
    root = tmp_path / "t"
    (root / "cat").mkdir(parents=True)
    (root / "cat" / "big.jpg").write_bytes(jpeg(3000, 4000))
    for number in range(400):
        (root / "cat" / f"{number}.jpg").hardlink_to(root / "cat" / "big.jpg")
    with packing(tmp_path / "x", root) as process:
        servers: list[int] = []

        def is_there() -> bool:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            named = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
            servers[:] = [int(pid) for pid, line in named.items() if b"forkserver" in line]
            return bool(servers)

        assert until(is_there, 20)
        time.sleep(at)
        for pid in servers:  # the server alone: a packing process that lives may end the work
            os.kill(pid, signal.SIGKILL)
        _, error = process.communicate(timeout=120)
    assert process.returncode in {0, 2}
    assert b"Traceback" not in error
    if process.returncode == 2:
        assert error.decode().splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("command", ["pack", "verify"])
def test_processes_that_cannot_load_their_codecs_are_one_line(tmp_path: Path, command: str) -> None:
    root = tree(tmp_path / "t", {"cat": 3})
    pack(listed(tmp_path, [Entry(index=0, labels=(0.0,), path="cat/0.jpg")]), root, tmp_path / "o")
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("simplejpeg", "cv2"):
        (broken / f"{name}.py").write_text("raise ImportError('out of memory\\nin two lines')\n")
    words = {"pack": [tmp_path / "x", root], "verify": [tmp_path / "o"]}[command]
    program = ["-m", "im2rec_tools", command, *words]
    last = refused(program, env={**os.environ, "PYTHONPATH": str(broken)})[-1]
    assert last.startswith("error: process: cannot load the image codecs (out of memory). Free mem")


@pytest.mark.parametrize("files", [12, 16, 17, 18])
def test_too_few_files_for_processes_are_one_line(tmp_path: Path, files: int) -> None:
    root = tree(tmp_path / "t", {"cat": 3})
    listed(tmp_path, [Entry(index=0, labels=(0.0,), path="cat/0.jpg")])
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))
    error = refused(["-m", "im2rec_tools", "pack", tmp_path / "x", root], preexec_fn=limit)
    assert len(error) == 1


def test_an_interrupt_does_not_reach_what_loads_the_codecs() -> None:
    code = (
        "import multiprocessing.forkserver as m; from pathlib import Path\n"
        "from im2rec_tools.packing.pool import Pool\n"
        "with Pool(1, 'im2rec_tools.packing.verify'):\n"
        "    print(Path(f'/proc/{m._forkserver._forkserver_pid}/status').read_text())\n"
        "    print(Path('/proc/self/status').read_text())"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=120, check=True)
    server, ours = (int(mask, 16) for mask in re.findall(r"SigBlk:\s*(\w+)", done.stdout))
    interrupt = 1 << (signal.SIGINT - 1)
    assert (server & interrupt, ours & interrupt) == (interrupt, 0)
