"""What is known of a running job, and when it is over. No clock and no process of its own."""

import signal
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.event_decoder import decoded
from bench.events import Event
from bench.notes import Note, NoteKind
from im2rec_tools.terminal import one_line
from launch.job.agents import GONE
from launch.job.interference import MachineCounters, Span
from launch.job.plan import Process
from launch.remote import limits
from launch.transport.client import Message
from results.worker_log import WorkerLog

# Agents beat once a second: a history of so many beats is longer than the ten seconds it is for.
BEATS = 12
IDLE_SECONDS = 10.0
_IDLE_BELOW, _BUSY_ABOVE = 0.05, 0.5


@dataclass(frozen=True, kw_only=True)
class Utilization:
    """What a process had used at one beat of its agent.

    at is a time of its host's clock, cpu_seconds is since it started, gpus the share of time that
    each of its GPUs was busy.
    """

    at: float
    cpu_seconds: float
    gpus: tuple[float, ...] = ()


def cpu_share(uses: Sequence[Utilization], cores: int) -> float | None:
    """Share of so many cores that was used from the first beat to the last; None for under two."""
    if len(uses) < 2 or uses[-1].at <= uses[0].at:
        return None
    used = uses[-1].cpu_seconds - uses[0].cpu_seconds
    return used / (uses[-1].at - uses[0].at) / max(1, cores)


def gpu_shares(uses: Sequence[Utilization]) -> tuple[float, ...]:
    """The mean of each GPU over the beats that know it; empty where the last one does not."""
    count = len(uses[-1].gpus) if uses else 0
    known = [use.gpus for use in uses if len(use.gpus) == count]
    return tuple(sum(gpus[n] for gpus in known) / len(known) for n in range(count))


def device_shares(label: str, uses: Sequence[Utilization], cores: int) -> dict[str, float]:
    """How busy each device of a worker was, by its name in words; empty before ten seconds."""
    if not uses or uses[-1].at - uses[0].at < IDLE_SECONDS:
        return {}
    gpus = gpu_shares(uses)
    if gpus:
        return {f"GPU {n} of {label}": share for n, share in enumerate(gpus)}
    return {label: cpu_share(uses, cores) or 0.0}


def idle(shares: Mapping[str, float]) -> list[str]:
    """The names of those that do next to nothing while more than half of all work.

    In a synchronous job all wait for the slowest, so that most are idle while it works: the odd
    one out is then the one that works.
    """
    working = sum(share > _BUSY_ABOVE for share in shares.values())
    if 2 * working <= len(shares):
        return []
    return [name for name, share in shares.items() if share < _IDLE_BELOW]


_TAIL_LINES, TAIL_WIDTH = 3, 200


@dataclass(kw_only=True)
class ProcessState:
    """The state of one process by its messages; times are on the controller's monotonic clock."""

    process: Process
    reached: bool = False
    registered: bool = False
    refused: int = 0
    stopped: bool = False
    validating: bool = False
    log: WorkerLog = field(default_factory=WorkerLog)
    failure: str = ""
    exit: str = ""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    uses: deque[Utilization] = field(default_factory=lambda: deque(maxlen=BEATS))
    last_report: float = 0.0

    @property
    def label(self) -> str:
        """The process in words: 'worker 1 (rank 0) on node03'."""
        rank = "" if self.log.rank is None else f" (rank {self.log.rank})"
        held = ", which is stopped (SIGSTOP)" if self.stopped else ""
        return f"{self.process.role} {self.process.index}{rank} on {self.process.host.name}{held}"

    @property
    def broken(self) -> bool:
        """Whether it has ended, and not well."""
        return self.exit not in {"", "ok"}

    def exit_text(self, code: int | None, number: int | None) -> str:
        """Its end in words, by exit code or by signal; 'ok' if all is as it should be."""
        if number is not None:
            return f"was killed by {signal_name(number)}{self._cause(number)}"
        if code != 0:
            return f"exited with code {code}"
        if self.process.role != "worker" or self.log.done is not None:
            return "ok"
        if self.log.rank is None:
            return "ended without having reported"
        return f"returned early, after {len(self.log.windows)} windows"

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
        """Its report of its failure, and the end of its log."""
        failure = f": {self.failure}" if self.failure else ""
        return failure + (f"; its log ends: {' | '.join(self.tail)}" if self.tail else "")


def signal_name(number: int) -> str:
    """SIGKILL, SIGSEGV, ... or 'signal 40' for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _line(text: str) -> str:
    """The text as one line that any encoding can hold."""
    return one_line(text.encode("utf-8", "replace").decode())


# What may end a worker before it has measured all windows.
EARLY = frozenset({"precision", "seconds", "epochs"})
# Of one process; more would be kept than memory is for.
_MOST_WINDOWS = 400_000
_FAILURE_WIDTH = 1000


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """Seconds a job may take to meet, to its first window, between windows, and to end.

    Between windows it is the larger of `progress` and `progress_factor` times the slowest so far.
    """

    rendezvous: float = limits.RENDEZVOUS_SECONDS
    first_window: float = limits.FIRST_WINDOW_SECONDS
    progress: float = limits.PROGRESS_SECONDS
    progress_factor: float = 10.0
    ending: float = limits.ENDING_SECONDS


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How a job ended: a status of a record, why it failed in one line, and notes if it did not.

    `silent` hosts have said nothing for so long that they are not waited for; `stopped` is whether
    a person ended the job, and with it the sweep. `code` is the exit code of a script's job.
    """

    status: str
    message: str = ""
    notes: tuple[Note, ...] = ()
    silent: tuple[str, ...] = ()
    stopped: bool = False
    code: int = 0


class JobMonitor:
    """Takes the agents' messages about one job and gives a verdict as soon as there is one.

    `windows` is how many each worker will measure, warm-up included, unless it reports that fewer
    are enough; 0 where epochs decide.
    """

    def __init__(
        self, processes: Sequence[Process], deadlines: Deadlines, now: float, windows: int = 0
    ) -> None:
        self.processes = processes
        self.states = {
            process.id: ProcessState(process=process, last_report=now) for process in processes
        }
        self.deadlines = deadlines
        self.agents = {process.host.name: now for process in processes}
        self.resumed = dict(self.agents)
        self.began = now
        self.met = 0.0
        self.placed = 0.0  # when the first process got its place in the job
        self.windows = windows
        self.idle: tuple[Note, ...] = ()
        # In the order of their messages: the first that fails brings others down.
        self.failed: list[ProcessState] = []
        self.machines: dict[str, Span] = {}
        self._lost: Verdict | None = None

    @property
    def refusals(self) -> tuple[Note, ...]:
        """A note if servers have refused commands."""
        count = sum(one.refused for one in self.states.values())
        return (Note(NoteKind.REFUSED_COMMANDS, {"count": count}),) if count else ()

    @property
    def workers(self) -> list[ProcessState]:
        """The workers, in the order of the plan."""
        return [one for one in self.states.values() if one.process.role == "worker"]

    def take(self, message: Message) -> Iterator[Event]:
        """Takes a message of an agent; yields the events in it."""
        host, name, values = message.host.name, message.values.get("id", ""), message.values
        if message.say in GONE | {"refused"}:
            self._lost = _no_agent(message)
            return
        self.take_sign_of_life(host, message.at)
        if message.say == "output":
            for line in values["lines"]:
                self.take_output(name, line)
        elif message.say == "beat":
            self._take_beat(host, values)
        elif message.say == "exit":
            self.take_exit(name, values.get("code"), values.get("signal"), message.at)
        elif message.say == "event":
            for line in values["lines"]:
                try:
                    event = decoded(line)
                except ValueError as error:
                    self.take_malformed(name, str(error), message.at)
                    continue
                if event is not None:
                    self.take_event(name, event, message.at)
                    yield event

    def _take_beat(self, host: str, values: dict[str, Any]) -> None:
        self.take_stopped(host, values["stopped"])
        at, machine = values["at"], values["machine"]
        if machine:
            programs = tuple(machine["gpu_programs"])
            self.take_counters(host, MachineCounters(at=at, **machine | {"gpu_programs": programs}))
        for name, seconds in values["cpu"].items():
            gpus = self.states[name].process.gpus if name in self.states else ()
            busy = tuple(values["gpu"][str(gpu)] for gpu in gpus if str(gpu) in values["gpu"])
            self.take_utilization(name, Utilization(at=at, cpu_seconds=seconds, gpus=busy))

    def take_sign_of_life(self, host: str, now: float) -> None:
        """Takes any sign of life of a host's agent."""
        if now - self.agents[host] > limits.AGENT_PAUSE_SECONDS:
            self.resumed[host] = now
        self.agents[host] = now

    def take_output(self, name: str, line: str) -> None:
        """Takes a line that a process printed."""
        if line.strip():
            self.states[name].tail.append(_line(line)[:TAIL_WIDTH])

    def take_stopped(self, host: str, names: Collection[str]) -> None:
        """Takes which processes of a host are stopped."""
        for one in self.states.values():
            if one.process.host.name == host:
                one.stopped = one.process.id in names

    def take_utilization(self, name: str, use: Utilization) -> None:
        """Takes what a process has used of its host."""
        if name in self.states:
            self.states[name].uses.append(use)

    def take_counters(self, host: str, counted: MachineCounters) -> None:
        """Takes what a host's machine has counted; kept are the first and last while all measure.

        Until each worker has ended a window, and once one is done, others may have time.
        """
        if all(one.log.windows and one.log.done is None for one in self.workers):
            first, _ = self.machines.get(host, (counted, counted))
            self.machines[host] = (first, counted)

    def take_event(self, name: str, event: Event, now: float) -> None:
        """Takes an event of a process."""
        one = self.states[name]
        one.last_report = now
        one.validating = event.kind == "validating"
        one.log.take(event)
        if event.kind == "reached":
            one.reached = True
        elif event.kind == "registered":
            one.registered, self.placed = True, self.placed or now
        elif event.kind == "refused":
            count = event.values.get("count")
            one.refused = count if isinstance(count, int) and 0 < count < 10**12 else 0
        elif event.kind == "ready" and all(worker.log.rank is not None for worker in self.workers):
            self.met = now
            for worker in self.workers:  # what was used to start is no sign of work
                worker.uses.clear()
        elif event.kind == "done":
            early = event.values.get("ended") in EARLY
            if len(one.log.windows) < self.windows and not early:
                one.failure = f"it was done after {len(one.log.windows)} of {self.windows} windows"
        elif event.kind == "failed":
            one.failure = _line(event.values["message"])[:_FAILURE_WIDTH]
        self._bound(one)
        self._note(one)

    def _bound(self, one: ProcessState) -> None:
        """Fails a process that reports more than it can have measured."""
        most = self.windows or _MOST_WINDOWS
        if len(one.log.windows) > most:
            one.failure = f"it reported more than {most} windows"
        elif len(one.log.epochs) > _MOST_WINDOWS:
            one.failure = f"it reported more than {_MOST_WINDOWS} epochs"

    def take_malformed(self, name: str, why: str, now: float) -> None:
        """Takes that a process reported what no event is, which fails it."""
        one = self.states[name]
        one.last_report = now
        one.failure = one.failure or f"its report is wrong: {why}"
        self._note(one)

    def take_exit(self, name: str, code: int | None, number: int | None, now: float) -> None:
        """Takes the end of a process, by exit code or by signal."""
        one = self.states[name]
        one.exit, one.last_report = one.exit_text(code, number), now
        self._note(one)

    def _note(self, one: ProcessState) -> None:
        if (one.failure or one.broken) and one not in self.failed:
            self.failed.append(one)

    def scheduler_failed(self) -> bool:
        """Whether the scheduler ended badly before all had met."""
        schedulers = [one for one in self.states.values() if one.process.role == "scheduler"]
        return not self.met and any(one.broken for one in schedulers)

    def ended(self, now: float) -> Verdict | None:
        """How the job has ended by the messages so far, or None."""
        complete = all(one.exit == "ok" and not one.failure for one in self.states.values())
        return self._lost or self._broken(now) or (Verdict(status="ok") if complete else None)

    def late(self, now: float) -> Verdict | None:
        """How the job has ended by messages that are overdue, or None."""
        verdict = self._silent(now) or self._displaced(now, limits.PLACE_SECONDS)
        if verdict:
            return verdict
        if all(worker.log.done is not None for worker in self.workers):
            return self._ending(now)
        return self._hung(now) if self.met else self._meeting(now)

    def _broken(self, now: float) -> Verdict | None:
        if self.failed:
            one = self.failed[0]
            # Its report of its failure goes with the way in which it then ended.
            if not one.broken and now - one.last_report <= limits.EXIT_SECONDS:
                return None
            what = one.exit if one.broken else "failed"
            # With a foreign server weights become garbage, which a worker takes for its own doing.
            failed = Verdict(status="failed", message=f"{one.label} {what}{one.last_words}")
            return self._displaced(now, limits.ORDER_SECONDS) or failed
        for one in self.states.values():
            if self._deserted(one, now):
                waiting = [worker for worker in self.workers if worker.log.done is None]
                message = f"{one.label} ended before {self._blamed(waiting)} reported to be done"
                return self._displaced(now, 0.0) or Verdict(status="failed", message=message)
        return None

    def _deserted(self, one: ProcessState, now: float) -> bool:
        """Whether a server or scheduler ended well while workers still need it."""
        if one.process.role == "worker" or one.exit != "ok":
            return False
        hosts = {worker.process.host.name for worker in self.workers if worker.log.done is None}
        if any(now - self.agents[host] > limits.AGENT_PAUSE_SECONDS for host in hosts):
            return False  # their workers may be done: the agent's silence is judged first
        since = max((one.last_report, *(self.resumed[host] for host in hosts)))
        return bool(hosts) and now - since > limits.ORDER_SECONDS

    def _silent(self, now: float) -> Verdict | None:
        limit = limits.AGENT_SILENCE_SECONDS
        silent = [host for host, last in self.agents.items() if now - last > limit]
        if not silent:
            return None
        why = (
            f"its agent has said nothing for {limit:.0f} s; the host or its network is "
            f"down, or held. An agent that hears nothing either ends its processes by itself"
        )
        message = f"{', '.join(silent)}: {why}"
        return Verdict(status="lost", message=message, silent=tuple(silent))

    def _hung(self, now: float) -> Verdict | None:
        slowest = max((w["seconds"] for one in self.workers for w in one.log.windows), default=0.0)
        progress = max(self.deadlines.progress, self.deadlines.progress_factor * slowest)
        allowed = progress if slowest else self.deadlines.first_window
        if now - max(self.met, *(one.last_report for one in self.workers)) <= allowed:
            return None
        waiting = [one for one in self.workers if one.log.done is None]
        least = min(len(one.log.windows) for one in waiting)
        behind = [one for one in waiting if len(one.log.windows) == least]
        return Verdict(
            status="hung",
            message=f"no progress for {allowed:.0f} s after window {least}: {self._blamed(behind)}",
        )

    def _blamed(self, suspects: Sequence[ProcessState]) -> str:
        """The processes that keep the job waiting: those that are stopped, if there are any."""
        stopped = [one for one in self.states.values() if one.stopped and not one.exit]
        return ", ".join(one.label for one in stopped or suspects)

    def _displaced(self, now: float, seconds: float) -> Verdict | None:
        """If some have had their places for so long, and others of the job have none."""
        if not self.placed or now - self.placed <= seconds:
            return None
        joined = [one for one in self.states.values() if one.process.role != "scheduler"]
        left = [
            one for one in joined if not one.registered and one.log.rank is None and not one.exit
        ]
        if not left or any(one.stopped for one in self.states.values()):
            return None
        env = left[0].process.env
        scheduler = f"{env['DMLC_PS_ROOT_URI']}:{env['DMLC_PS_ROOT_PORT']}"
        return Verdict(
            status="failed",
            message=f"{', '.join(one.label for one in left)}: expected a place in the job from the "
            f"scheduler at {scheduler}, got none although the job is complete. Another program has "
            f"joined it, for MXNet has no authentication; use a network and hosts of your own",
        )

    def _meeting(self, now: float) -> Verdict | None:
        if now - self.began <= self.deadlines.rendezvous:
            return None
        if displaced := self._displaced(now, 0.0):
            return displaced
        within = f"not all processes met within {self.deadlines.rendezvous:.0f} s"
        everyone = self.states.values()
        scheduler = [one for one in everyone if one.process.role == "scheduler"]
        # Without a scheduler that listens nobody can reach it.
        missing = [one for one in scheduler if one.stopped or not one.reached]
        missing = missing or [one for one in everyone if one.stopped or not one.reached]
        if missing:
            why = f"missing: {', '.join(one.label for one in missing)}"
        else:
            waiting = ", ".join(one.label for one in self.workers if one.log.rank is None)
            why = f"all reached the scheduler, and {waiting} waited for the others; see the logs"
        return Verdict(status="timeout", message=f"{within}; {why}")

    def _ending(self, now: float) -> Verdict | None:
        last = max(worker.last_report for worker in self.workers)
        left = [one for one in self.states.values() if not one.exit]
        if not left or now - last <= self.deadlines.ending:
            return None
        if displaced := self._displaced(now, 0.0):
            return displaced
        return Verdict(
            status="hung",
            message=f"training was done, but did not end within {self.deadlines.ending:.0f} s: "
            f"{self._blamed(left)}",
        )


def _no_agent(message: Message) -> Verdict:
    if message.say == "refused":
        why = f"{message.values['id']} could not be started: {message.values['why']}"
        return Verdict(status="failed", message=f"{message.host.name}: {why}")
    why = message.values.get("why", "its channel closed")
    return Verdict(
        status="lost",
        message=f"{message.host.name}: its agent is gone ({why}); its processes ended with it",
        stopped=bool(message.values.get("stopped")),
    )
