"""A program and every process that it starts, which end together."""

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_F_GETPIPE_SZ = 1032
_PIECE_BYTES, _MOST_LINE = 1 << 16, 1 << 16
_TURN_SECONDS, _PAUSE_SECONDS = 0.2, 0.02
_SHOWN = 80


def children() -> dict[int, str]:
    """Return the command line of each running child of this process, by pid.

    Orphans of the program are children too, because this process adopts them.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, IndexError):
            state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if int(parent) == os.getpid() and state != b"Z":
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
                found[int(entry.name)] = words.replace("\0", " ").strip()[:_SHOWN]
    return found


def survive_parent() -> None:
    """Raise SystemExit in this process if its parent ends.

    The agent starts it with SIGKILL for that case. Nobody could then end processes of the program
    that have sessions of their own.
    """

    def leave(number: int, frame: object) -> None:
        sys.exit(1)

    signal.signal(signal.SIGUSR2, leave)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR2, 0, 0, 0)


class Program:
    """A running program in a process group of its own.

    OSError if it cannot be started.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._popen = subprocess.Popen(
            words,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._popen.stdout is not None
        self._output = self._popen.stdout.fileno()
        os.set_blocking(self._output, False)
        self._rest = b""
        self._pending: deque[str] = deque()

    def lines(self, until: float | None = None) -> Iterator[tuple[str, float]]:
        """Yield each line with its arrival until the program ends, or until a time.

        A carriage return ends a line too, as progress bars print. Times are of time.monotonic().
        """
        unread = None  # of what the program printed before its end; its processes may print on
        while True:
            ended = self._popen.poll() is not None
            if ended and unread is None:
                unread = fcntl.fcntl(self._output, _F_GETPIPE_SZ)
            ready = select.select([self._output], [], [], 0 if ended else _TURN_SECONDS)[0]
            piece = b""
            if ready:
                piece = os.read(self._output, _PIECE_BYTES)
                if not piece and not ended:  # it has closed its output
                    time.sleep(_PAUSE_SECONDS)
            now = time.monotonic()
            self._pending += self._complete(piece)
            while self._pending:
                yield self._pending.popleft(), now
            if unread is not None:
                unread -= len(piece)
            if (ended and not piece) or (unread or 0) < 0 or (until is not None and now > until):
                break
        if self._rest:
            yield self._rest.decode("utf-8", "replace"), time.monotonic()
            self._rest = b""

    def _complete(self, piece: bytes) -> Iterator[str]:
        *parts, self._rest = (self._rest + piece).replace(b"\r", b"\n").split(b"\n")
        if len(self._rest) > _MOST_LINE:
            parts.append(self._rest)
            self._rest = b""
        for part in parts:
            if part:
                yield part.decode("utf-8", "replace")

    @property
    def code(self) -> int | None:
        """Its exit code, or minus a signal; None while it runs."""
        return self._popen.poll()

    def left_behind(self, seconds: float) -> dict[int, str]:
        """Return processes that outlive the program by these seconds, by pid."""
        limit = time.monotonic() + seconds
        while (found := children()) and time.monotonic() < limit:
            _reap()
            time.sleep(_PAUSE_SECONDS)
        return found

    def end(self, seconds: float) -> None:
        """End the program and its processes: by SIGTERM, after these seconds by SIGKILL."""
        if self._popen.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGTERM)
            for _ in self.lines(time.monotonic() + seconds):
                pass
        while left := children():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._popen.poll()
            _reap()
            time.sleep(_PAUSE_SECONDS)


def _reap() -> None:
    """Wait for orphans that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
