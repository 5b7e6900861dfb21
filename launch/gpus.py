"""How busy the GPUs of one host are, and who else is on them, as its agent sees it.

Nothing is known where there is no nvidia-smi.

Standard library only and Python 3.8 or newer, as the agent that it is sent with.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import math
import os
import shutil
import subprocess

from launch.energy import Power, watts
from launch.processes import Lines, descendants

_EVERY_SECONDS = 5.0
# What was told longer ago says nothing of the power now.
_STALE_SECONDS = 3 * _EVERY_SECONDS
_FORMAT = "--format=csv,noheader,nounits"


class Gpus:
    """How busy the GPUs are, what they use and which programs are on them, as last told."""

    def __init__(self) -> None:
        self._use = _Query("--query-gpu=index,utilization.gpu,power.draw")
        self._power = Power()
        self._programs = _Query("--query-compute-apps=pid")

    def look(self, now: float) -> dict[str, float]:
        """The share of time that each GPU was busy, by its index."""
        return dict(filter(None, map(_busy, self._use.look(now))))

    def energy(self, now: float) -> float | str:
        """Joules of all of them since they first told their power, or why that is not known."""
        if not self._use.told or now - self._use.told_at > _STALE_SECONDS:
            return self._use.silence
        all_watts = watts(self._use.told)
        if all_watts is None:
            return "nvidia-smi tells no power of some GPU there"
        self._power.tell(self._use.told_at, all_watts)
        return self._power.joules(now)

    def others(self, now: float) -> list[int]:
        """The pids of programs on the GPUs that this process has not started.

        In a container the driver may tell pids of the machine: those are not known here.
        """
        told = {int(line) for line in self._programs.look(now) if line.isdigit()}
        if not told:
            return []
        foreign = told - {os.getpid(), *descendants(os.getpid())}
        return sorted(pid for pid in foreign if os.path.isdir(f"/proc/{pid}"))  # noqa: PTH112


class _Query:
    """Asks nvidia-smi now and then, and never waits for the answer: it comes with a later beat."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._program = shutil.which("nvidia-smi")
        self.silence = "nvidia-smi told nothing there" if self._program else "no nvidia-smi there"
        self._query: subprocess.Popen[bytes] | None = None
        self._answer: Lines | None = None
        self._asked = -math.inf
        self._said: list[str] = []
        self.told: list[str] = []
        self.told_at = 0.0

    def look(self, now: float) -> list[str]:
        """The lines that it last told."""
        if self._query is not None:
            self._read(now)
        elif self._program is not None and now - self._asked >= _EVERY_SECONDS:
            self._ask(now)
        return self.told

    def _ask(self, now: float) -> None:
        self._asked, self._said = now, []
        try:
            self._query = subprocess.Popen(
                [str(self._program), self._what, _FORMAT],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            self._program = None
            return
        assert self._query.stdout is not None
        self._answer = Lines(self._query.stdout.fileno())

    def _read(self, now: float) -> None:
        assert self._query is not None
        assert self._query.stdout is not None
        assert self._answer is not None
        lines, closed = self._answer.read()
        self._said += lines
        if closed and self._query.poll() is not None:
            self.told, self.told_at = self._said, self._asked
            self._query.stdout.close()
            self._query = None
        elif now - self._asked >= _EVERY_SECONDS:  # a driver that hangs is not asked again
            self._query.kill()
            self._program, self.told, self._said = None, [], []


def _busy(line: str) -> tuple[str, float] | None:
    """('0', 0.97) of '0, 97, 61.2'; None for '0, [N/A], 61.2', as with MIG."""
    index, _, rest = line.partition(",")
    try:
        return index.strip(), float(rest.partition(",")[0]) / 100
    except ValueError:
        return None
