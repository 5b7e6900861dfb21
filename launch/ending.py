"""Ends what a master started on a host, found by the lease that its agent holds; never by name.

Standard library only and Python 3.8 or newer, sent over a line as the agent is.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import os
import signal
import sys
import time
from typing import Any

from launch import lease
from launch.processes import descendants

# Longer than an agent takes to end what does not want to end.
_TERM_SECONDS, _KILL_SECONDS = 7.0, 2.0


def main() -> None:
    """Ends the agent that has this host and all below it, when asked to; says whose it was."""
    for line in sys.stdin:
        try:
            said: dict[str, Any] = {"say": "ended", **_end(lease.holder())}
        except PermissionError:
            said = {"say": "failed", "who": lease.described(lease.holder())}
        print(json.dumps({**said, "n": json.loads(line).get("n")}), flush=True)


def _end(holder: dict[str, Any]) -> dict[str, Any]:
    if not holder:
        return {"who": ""}
    pid = int(holder.get("pid", 0))
    if pid > 1 and _is_agent(pid):
        below = [pid, *descendants(pid)]
        _signal([pid], signal.SIGUSR1)  # by which an agent knows who ends it
        if not _over(_TERM_SECONDS):
            _signal([*below, *descendants(pid)], signal.SIGKILL)
            _over(_KILL_SECONDS)
    return {"who": lease.described(holder), "left": bool(lease.holder())}


def _is_agent(pid: int) -> bool:
    """Whether it is a program of ours: anybody may hold a lease."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return b"exec(__import__(" in file.read()
    except OSError:
        return False


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # one that is held cannot end
        except ProcessLookupError:
            continue


def _over(seconds: float) -> bool:
    """Whether nobody has the host within so many seconds."""
    deadline = time.monotonic() + seconds
    while lease.holder():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
