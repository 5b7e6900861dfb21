"""What one process of a running job has shown so far, and how it is put into words."""

import signal
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from launch.plan import Process
from launch.use import BEATS, Use

_TAIL_LINES, TAIL_WIDTH = 3, 200


@dataclass(kw_only=True)
class Seen:
    """What one process has shown so far; times are on the watcher's monotonic clock."""

    process: Process
    reached: bool = False
    registered: bool = False
    refused: int = 0
    stopped: bool = False
    validating: bool = False
    rank: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    windows: list[dict[str, Any]] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    done: dict[str, Any] | None = None
    failure: str = ""
    exit: str = ""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    uses: deque[Use] = field(default_factory=lambda: deque(maxlen=BEATS))
    heard: float = 0.0

    @property
    def who(self) -> str:
        """The process in words: 'worker 1 (rank 0) on node03'."""
        rank = "" if self.rank is None else f" (rank {self.rank})"
        held = ", which is stopped (SIGSTOP)" if self.stopped else ""
        return f"{self.process.role} {self.process.index}{rank} on {self.process.host.name}{held}"

    @property
    def broken(self) -> bool:
        """Whether it has ended, and not well."""
        return self.exit not in {"", "ok"}

    def how(self, code: int | None, number: int | None) -> str:
        """Its end in words, by exit code or by signal; 'ok' if all is as it should be."""
        if number is not None:
            return f"was killed by {signal_name(number)}{self._cause(number)}"
        if code != 0:
            return f"exited with code {code}"
        if self.process.role != "worker" or self.done is not None:
            return "ok"
        if self.rank is None:
            return "ended without having reported"
        return f"returned early, after {len(self.windows)} windows"

    def _cause(self, number: int) -> str:
        """The likely reason for a signal."""
        if number == signal.SIGKILL:
            return " (out of memory?)"
        # MXNet's servers and schedulers abort on bytes that are no message of theirs.
        if self.process.role != "worker" and number in {signal.SIGABRT, signal.SIGSEGV}:
            return " (a malformed message from another program?)"
        return ""

    @property
    def last_words(self) -> str:
        """What it said of its failure, and how its log ends."""
        said = f": {self.failure}" if self.failure else ""
        return said + (f"; its log ends: {' | '.join(self.tail)}" if self.tail else "")


def signal_name(number: int) -> str:
    """SIGKILL, SIGSEGV, ... or 'signal 40' for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def one_line(text: str) -> str:
    """The text as a table and any encoding can hold it."""
    text = text.encode("utf-8", "replace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
