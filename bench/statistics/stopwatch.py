"""Stopwatch of this process: wall time, CPU time, run delay of its threads."""

import os
import time
from pathlib import Path
from typing import Any

_TASKS = Path("/proc/self/task")
# CPU time of readings as a share of all time, at most; shorter windows share a reading.
_MOST_SHARE = 2e-4


class Stopwatch:
    """A stopwatch of wall time and this process's CPU time; it starts when created."""

    def __init__(self) -> None:
        self._cpu, self._start = time.process_time(), time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since it was created."""
        return time.perf_counter() - self._start

    def window(self, index: int, images: int, steps: int) -> dict[str, Any]:
        """Return the facts of the window that ends now; `end` is Unix time in seconds."""
        return {
            "index": index,
            "seconds": self.seconds,
            "end": time.time(),
            "cpu_seconds": time.process_time() - self._cpu,
            "images": images,
            "steps": steps,
        }


class RunDelay:
    """Seconds that the threads of this process were ready to run and had no CPU.

    Field 2 of /proc/self/task/*/schedstat, summed over threads. The files stay open, because
    opening one takes longer than reading it.
    """

    def __init__(self, tasks: Path = _TASKS) -> None:
        self._tasks = tasks
        self._files: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._links = 0
        self._nanoseconds = 0

    def __del__(self) -> None:
        for file in self._files.values():
            os.close(file)

    def read(self) -> float | None:
        """Return the seconds since the first reading; None if the kernel does not count."""
        try:
            self._open()
        except OSError:
            return None
        for name, file in tuple(self._files.items()):
            try:
                waited = int(os.pread(file, 64, 0).split()[1])
            except (OSError, IndexError, ValueError):  # the thread has ended
                self._forget(name)
                continue
            self._nanoseconds += max(0, waited - self._last.get(name, waited))
            self._last[name] = waited
        return self._nanoseconds / 1e9 if self._files else None

    def _open(self) -> None:
        """Open the files of new threads; the folder has a link per thread."""
        links = os.stat(self._tasks).st_nlink  # noqa: PTH116 - a third of the time
        if links == self._links:
            return
        first = not self._files
        self._links, names = links, {one.name for one in self._tasks.iterdir()}
        for name in self._files.keys() - names:
            self._forget(name)
        for name in names - self._files.keys():
            try:
                self._files[name] = os.open(self._tasks / name / "schedstat", os.O_RDONLY)
            except FileNotFoundError:  # it has ended, or the kernel does not count
                continue
            if not first:  # all of its delay is since the last reading
                self._last[name] = 0

    def _forget(self, name: str) -> None:
        os.close(self._files.pop(name))
        self._last.pop(name, None)
        self._links = 0


class WindowDelays:
    """Run delay of each window; very short windows share the reading of a later one."""

    def __init__(self, delay: RunDelay | None = None) -> None:
        self._delay = delay or RunDelay()
        self._before: float | None = None
        self._next = 0.0
        self._pending = False

    def start(self) -> None:
        """Begin a window, before its stopwatch starts."""
        if not self._pending:
            self._read()

    def end(self) -> dict[str, float]:
        """Return the `run_delay` of the window, after its stopwatch has stopped.

        It is 0 if a later window has it, and absent if the kernel does not count.
        """
        self._pending = time.perf_counter() < self._next
        if self._before is None:
            return {}
        if self._pending:
            return {"run_delay": 0.0}
        before, now = self._before, self._read()
        return {} if now is None else {"run_delay": now - before}

    def restart(self) -> None:
        """Leave out what happens between windows, such as a probe."""
        self._pending = False

    def _read(self) -> float | None:
        start = time.thread_time()
        self._before = self._delay.read()
        cost = time.thread_time() - start
        self._next = time.perf_counter() + cost / _MOST_SHARE
        return self._before
