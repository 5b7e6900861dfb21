"""Processes of a test, found by a variable of their environment."""

import os
from pathlib import Path

# Variable that every process of a test inherits.
MARK = "MXSCALE_VIA_TEST"


def left(mark: str) -> list[int]:
    """Return the processes that have the mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
