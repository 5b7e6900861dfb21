"""What the machine of an agent counts, so that the work of others beside a job can be told.

Standard library only and Python 3.8 or newer, as the agent that it is sent with.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import math
import os
import resource
from pathlib import Path
from typing import Any

from launch.boot import boot_id
from launch.energy import Rapl

# Clocks are asked for seldom and of few cores: a kernel may take 10 ms to find one out.
_SLOW_SECONDS, _MOST_CORES = 5.0, 4
_CPUS = Path("/sys/devices/system/cpu")
_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Counters:
    """The counters of this machine since it started, as launch/disturbed.py explains them."""

    def __init__(self) -> None:
        self._looked = -math.inf
        self._slow: dict[str, Any] = {}
        self._rapl = Rapl()

    def look(self, now: float, children_seconds: float, cores: set[int]) -> dict[str, Any]:
        """The counters now; children have used so many processor seconds, on these cores."""
        if now - self._looked >= _SLOW_SECONDS:
            self._looked = now
            clocks = [
                _number(_CPUS / f"cpu{core}/cpufreq/scaling_cur_freq")
                for core in sorted(cores)[:_MOST_CORES]
            ]
            counts = _CPUS.glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
            self._slow = {
                "machine": boot_id(),
                "clock": max(clocks, default=0) / 1e6,
                "throttled": sum(map(_number, counts)),
            }
        return {
            **self._slow,
            **processors(_text(Path("/proc/stat"))),
            "ours": _own_seconds() + children_seconds,
            "swapped": swapped(_text(Path("/proc/vmstat"))),
            "energy": {"rapl": self._rapl.look()},
        }


def processors(stat: str) -> dict[str, float]:
    """How many there are, and the seconds they were busy and stolen: /proc/stat, proc(5)."""
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    total = [int(word) for word in lines[0][1:9]] if lines else [0] * 8
    user, nice, system, _, _, irq, softirq, stolen = total
    busy = user + nice + system + irq + softirq
    return {"cores": max(0, len(lines) - 1), "busy": busy / _TICKS, "stolen": stolen / _TICKS}


def swapped(vmstat: str) -> int:
    """Bytes to and from swap: /proc/vmstat."""
    words = [line.split() for line in vmstat.splitlines() if line.startswith("pswp")]
    return sum(int(count) for _, count in words) * _PAGE_BYTES


def _own_seconds() -> float:
    """Processor seconds of the agent and of what it started that has ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _number(path: Path) -> int:
    """What a file of the kernel holds; 0 where it does not tell."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else 0
