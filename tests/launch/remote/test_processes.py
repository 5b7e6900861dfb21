"""Processes that an agent starts: the CPU time of their descendants."""

import os
import resource
import signal
import sys
import time
from typing import Any

from launch.remote.processes import children_by_parent, start

# A parent that sleeps, and a child that computes.
CODE = (
    "import os, time\nif os.fork():\n    time.sleep(60)\n"
    "end = time.process_time() + 0.5\nwhile time.process_time() < end: pass\ntime.sleep(60)"
)


def test_descendants_are_those_of_one_table_for_all_processes() -> None:
    wanted: dict[str, Any] = {
        "id": "worker-0",
        "argv": [sys.executable, "-I", "-S", "-c", CODE],
        "env": {},
        "cwd": "/",
        "cores": [],
        "gpus": [],
        "family": True,
    }
    child = start(wanted, resource.getrlimit(resource.RLIMIT_NOFILE))
    try:
        deadline = time.monotonic() + 30
        while child.state(children_by_parent())[1] < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert child.state(children_by_parent())[1] >= 0.5
        assert child.state({})[1] < 0.5  # it makes no table of its own
    finally:
        os.killpg(child.popen.pid, signal.SIGKILL)
        child.popen.wait()
        for stream in child.streams.values():
            os.close(stream.fd)
