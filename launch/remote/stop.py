"""End of a controller's processes on a host, found by its agent's lease.

Only a lease of this user counts. Only its process, as the kernel gives it, and the descendants of
that process are signaled.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import os
import signal
import sys
import time
from typing import Any

from launch.remote import commands, lease, limits
from launch.remote.errors import ProtocolError
from launch.remote.processes import descendants


def main() -> None:
    """End the agent that uses this host and its descendants on request.

    Report its owner.
    """
    for line in sys.stdin.buffer:
        try:
            asked = commands.parsed(line, {"end": {"n": int}})
        except ProtocolError:
            continue  # the sender waits for answers to numbered lines only
        answer = {"say": "ended", **end(lease.holder()), "others": lease.others()}
        print(json.dumps({**answer, "n": asked["n"]}), flush=True)


def end(holder: dict[str, Any]) -> dict[str, Any]:
    """End the holder of a lease and its processes.

    Return its owner, and whether one is left.
    """
    if not holder:
        return {"owner": "", "left": False}
    pid = int(holder["pid"])
    if pid > 1 and pid != os.getpid():
        below = [pid, *descendants(pid)]
        _signal([pid], signal.SIGUSR1)  # the signal that stands for hosts.stop
        if not _over(pid, limits.END_BY_SIGNAL_SECONDS):
            _signal([*below, *descendants(pid)], signal.SIGKILL)
            _over(pid, limits.END_BY_KILL_SECONDS)
    return {"owner": lease.described(holder), "left": bool(lease.holder())}


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # a suspended process cannot end
        except (ProcessLookupError, PermissionError):
            continue


def _over(pid: int, seconds: float) -> bool:
    """Wait until the process has lost the lease; return False after `seconds`."""
    deadline = time.monotonic() + seconds
    while lease.holder().get("pid") == pid:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
