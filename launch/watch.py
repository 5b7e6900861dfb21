"""What is known of a running job, and when it is over. No clock and no process of its own."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.events import Event
from launch.plan import Process

_LAST_WORDS_SECONDS = 0.5
# Messages of different hosts come in any order.
_ORDER_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """Seconds a job may take to meet, to its first window, between windows, and to end.

    Between windows it is the larger of `progress` and `progress_factor` times the slowest so far.
    """

    rendezvous: float = 120.0
    first_window: float = 600.0
    progress: float = 60.0
    progress_factor: float = 10.0
    ending: float = 15.0


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a job ended: a status of a record, and one line for a person."""

    status: str
    message: str = ""


@dataclass(kw_only=True)
class Seen:
    """What one process has shown so far; times are on the watcher's monotonic clock."""

    process: Process
    rank: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    windows: list[dict[str, Any]] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    done: dict[str, Any] | None = None
    failure: str = ""
    exit: str = ""
    last_line: str = ""
    heard: float = 0.0

    @property
    def who(self) -> str:
        """The process in words: 'worker 1 (rank 0) on node03'."""
        rank = "" if self.rank is None else f" (rank {self.rank})"
        return f"{self.process.role} {self.process.index}{rank} on {self.process.host.name}"


class Watch:
    """Takes what agents say about one job and gives a verdict as soon as there is one."""

    def __init__(self, processes: Sequence[Process], deadlines: Deadlines, now: float) -> None:
        self.seen = {process.id: Seen(process=process, heard=now) for process in processes}
        self.deadlines = deadlines
        self.began = now
        self.met = 0.0

    @property
    def workers(self) -> list[Seen]:
        """The workers, in the order of the plan."""
        return [one for one in self.seen.values() if one.process.role == "worker"]

    def hear(self, name: str, event: Event, now: float) -> None:
        """Takes an event of a worker."""
        one = self.seen[name]
        one.heard = now
        if event.kind == "ready":
            one.rank, one.facts = event.rank, event.values
            if all(worker.rank is not None for worker in self.workers):
                self.met = now
        elif event.kind == "window":
            one.windows.append(event.values)
        elif event.kind == "epoch":
            one.epochs.append(event.values)
        elif event.kind == "done":
            one.done = event.values
        else:
            one.failure = str(event.values.get("message", ""))

    def exited(self, name: str, code: int | None, number: int | None, now: float) -> None:
        """Takes the end of a process, by exit code or by signal."""
        one = self.seen[name]
        if number is not None:
            hint = " (out of memory?)" if number == signal.SIGKILL else ""
            one.exit = f"was killed by {signal.Signals(number).name}{hint}"
        elif code != 0:
            one.exit = f"exited with code {code}"
        elif one.process.role == "worker":
            early = f"returned early, after {len(one.windows)} windows"
            one.exit = early if one.done is None else "ok"
        else:
            one.exit = "ok"
        one.heard = now

    def verdict(self, now: float) -> Verdict | None:
        """How the job has ended, or None while it runs."""
        return self._broken(now) or self._complete() or self._late(now)

    def _broken(self, now: float) -> Verdict | None:
        for one in self.seen.values():
            # What a worker said of its failure is told together with how it then ended.
            failed = one.failure and now - one.heard > _LAST_WORDS_SECONDS
            if one.exit not in {"", "ok"} or failed:
                said = one.failure or one.last_line
                what = one.exit or "failed"
                return Verdict(
                    status="failed", message=f"{one.who} {what}" + (f": {said}" if said else "")
                )
            if one.exit == "ok" and now - one.heard > _ORDER_SECONDS and not self._trained():
                return Verdict(
                    status="failed", message=f"{one.who} ended before the workers were done"
                )
        return None

    def _trained(self) -> bool:
        return all(worker.done is not None for worker in self.workers)

    def _complete(self) -> Verdict | None:
        if any(one.exit != "ok" for one in self.seen.values()):
            return None
        return Verdict(status="ok")

    def _late(self, now: float) -> Verdict | None:
        if self._trained():
            return self._ending(now)
        if not self.met:
            return self._meeting(now)
        slowest = max((w["seconds"] for one in self.workers for w in one.windows), default=0.0)
        progress = max(self.deadlines.progress, self.deadlines.progress_factor * slowest)
        allowed = progress if slowest else self.deadlines.first_window
        # The ranks of a synchronous job stop together; the one to name has come least far.
        waiting = [one for one in self.workers if one.done is None]
        if now - max(self.met, *(one.heard for one in self.workers)) <= allowed:
            return None
        least = min(len(one.windows) for one in waiting)
        names = ", ".join(one.who for one in waiting if len(one.windows) == least)
        return Verdict(
            status="hung", message=f"no progress for {allowed:.0f} s after window {least}: {names}"
        )

    def _meeting(self, now: float) -> Verdict | None:
        if now - self.began <= self.deadlines.rendezvous:
            return None
        missing = [worker.who for worker in self.workers if worker.rank is None]
        if len(missing) == len(self.workers) and len(self.seen) > 1:
            # Everyone waits for the one that is missing, and only workers say when they have met.
            who = "a worker, a server or the scheduler never came; see the logs of "
            who += ", ".join(one.process.id for one in self.seen.values())
        else:
            who = "missing: " + ", ".join(missing)
        within = f"{self.deadlines.rendezvous:.0f} s"
        return Verdict(status="timeout", message=f"not all processes met within {within}; {who}")

    def _ending(self, now: float) -> Verdict | None:
        last = max(worker.heard for worker in self.workers)
        left = [one.who for one in self.seen.values() if not one.exit]
        if not left or now - last <= self.deadlines.ending:
            return None
        return Verdict(
            status="hung",
            message=f"training was done, but {', '.join(left)} did not end within "
            f"{self.deadlines.ending:.0f} s",
        )
