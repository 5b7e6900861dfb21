"""Ends what a controller started on a host, found by the lease that its agent holds.

Only a lease of this user counts, and only the process that the kernel says holds it is signalled,
with what that process started.
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
    """Ends the agent that has this host and all below it, when asked to; says whose it was."""
    for line in sys.stdin.buffer:
        try:
            asked = commands.parsed(line, {"end": {"n": int}})
        except ProtocolError:
            continue  # its sender waits for no answer that has a number
        answer = {"say": "ended", **end(lease.holder()), "others": lease.others()}
        print(json.dumps({**answer, "n": asked["n"]}), flush=True)


def end(holder: dict[str, Any]) -> dict[str, Any]:
    """Ends the holder of a lease and its processes; reports whose it was, and if any is left."""
    if not holder:
        return {"owner": "", "left": False}
    pid = int(holder["pid"])
    if pid > 1 and pid != os.getpid():
        below = [pid, *descendants(pid)]
        _signal([pid], signal.SIGUSR1)  # by which an agent knows who ends it
        if not _over(pid, limits.END_BY_SIGNAL_SECONDS):
            _signal([*below, *descendants(pid)], signal.SIGKILL)
            _over(pid, limits.END_BY_KILL_SECONDS)
    return {"owner": lease.described(holder), "left": bool(lease.holder())}


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # one that is held cannot end
        except (ProcessLookupError, PermissionError):
            continue


def _over(pid: int, seconds: float) -> bool:
    """Whether the lease is no longer that process's within so many seconds."""
    deadline = time.monotonic() + seconds
    while lease.holder().get("pid") == pid:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
