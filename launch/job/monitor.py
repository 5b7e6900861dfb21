"""State of a running job by its messages, and the verdict on it.

Pure: no clock, no process.
"""

import signal
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.engines.event_decoder import decoded
from bench.events import Event
from bench.notes import Note, NoteKind
from im2rec_tools.terminal import one_line
from launch.job.agents import GONE
from launch.job.interference import MachineCounters, ServerUse, Span, extended, gpu_use
from launch.job.plan import Process
from launch.remote import limits
from launch.remote.errors import error_line
from launch.transport.client import Message
from results.record import Cause
from results.worker_log import WorkerLog

# Agents send a heartbeat once a second; the history covers a little more than IDLE_SECONDS.
BEATS = 12
IDLE_SECONDS = 10.0
_IDLE_BELOW, _BUSY_ABOVE = 0.05, 0.5


@dataclass(frozen=True, kw_only=True)
class Utilization:
    """CPU time and GPU load of a process at one heartbeat of its agent.

    at            by the host's clock
    cpu_seconds   since the process started
    gpus          share of the time that each of its GPUs was busy
    """

    at: float
    cpu_seconds: float
    gpus: tuple[float, ...] = ()


def cpu_share(uses: Sequence[Utilization], cores: int) -> float | None:
    """Return the share of `cores` in use from the first heartbeat to the last.

    None below two.
    """
    if len(uses) < 2 or uses[-1].at <= uses[0].at:
        return None
    used = uses[-1].cpu_seconds - uses[0].cpu_seconds
    return used / (uses[-1].at - uses[0].at) / max(1, cores)


def gpu_shares(uses: Sequence[Utilization]) -> tuple[float, ...]:
    """Return the mean load of each GPU; empty if the last heartbeat has none."""
    count = len(uses[-1].gpus) if uses else 0
    known = [use.gpus for use in uses if len(use.gpus) == count]
    return tuple(sum(gpus[n] for gpus in known) / len(known) for n in range(count))


def device_shares(label: str, uses: Sequence[Utilization], cores: int) -> dict[str, float]:
    """Return the load of each device of a worker by its name.

    Empty in the first ten seconds.
    """
    if not uses or uses[-1].at - uses[0].at < IDLE_SECONDS:
        return {}
    gpus = gpu_shares(uses)
    if gpus:
        return {f"GPU {n} of {label}": share for n, share in enumerate(gpus)}
    return {label: cpu_share(uses, cores) or 0.0}


def idle(shares: Mapping[str, float]) -> list[str]:
    """Return the names of idle devices while more than half of all devices are busy.

    In a synchronous job all wait for the slowest: if most are idle, the busy one is the problem.
    """
    working = sum(share > _BUSY_ABOVE for share in shares.values())
    if 2 * working <= len(shares):
        return []
    return [name for name, share in shares.items() if share < _IDLE_BELOW]


_TAIL_LINES, TAIL_WIDTH = 3, 200


@dataclass(kw_only=True)
class ProcessState:
    """State of one process by its messages.

    Times are on the controller's monotonic clock.
    """

    process: Process
    pid: int | None = None
    reached: bool = False
    registered: bool = False
    refused: int = 0
    stopped: bool = False
    validating: bool = False
    log: WorkerLog = field(default_factory=WorkerLog)
    failure: str = ""
    exit: str = ""
    cause: Cause = Cause.EXITED
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    uses: deque[Utilization] = field(default_factory=lambda: deque(maxlen=BEATS))
    last_report: float = 0.0

    @property
    def label(self) -> str:
        """The process for messages: 'worker 1 (rank 0) on node03'."""
        rank = "" if self.log.rank is None else f" (rank {self.log.rank})"
        held = ", suspended (SIGSTOP)" if self.stopped else ""
        return f"{self.process.role} {self.process.index}{rank} on {self.process.host.name}{held}"

    @property
    def broken(self) -> bool:
        """Whether it has exited with an error."""
        return self.exit not in {"", "ok"}

    def exit_text(self, code: int | None, number: int | None, oom: bool | None) -> str:
        """Describe how it exited, by exit code or signal; 'ok' if as expected."""
        if number is not None:
            return f"was killed by {signal_name(number)}{self._cause(number, oom)}"
        if code != 0:
            return f"exited with code {code}"
        if self.process.role != "worker" or self.log.done is not None:
            return "ok"
        if self.log.rank is None:
            return "exited before it reported a rank"
        return f"exited early, {_after(len(self.log.windows))}"

    def _cause(self, number: int, oom: bool | None) -> str:
        """Return the likely cause of a signal."""
        if number == signal.SIGKILL:
            return kill_cause(oom, self.process.host.name)
        # MXNet's servers and schedulers abort on a malformed message.
        if self.process.role != "worker" and number in {signal.SIGABRT, signal.SIGSEGV}:
            return " (a malformed message from another program?)"
        return ""

    @property
    def last_words(self) -> str:
        """Its own report of the failure, and the last lines of its log."""
        failure = f": {self.failure}" if self.failure else ""
        return failure + (f"; last log lines: {' | '.join(self.tail)}" if self.tail else "")


def kill_cause(oom: bool | None, host: str) -> str:
    """Return the cause of a SIGKILL.

    oom  whether the kernel killed processes for lack of memory during the job; None: unknown
    """
    if oom is None:
        return " (out of memory?)"
    if oom:
        return f": out of memory (the kernel's OOM killer acted on {host})"
    return ", not by the kernel's OOM killer but by a person, a batch system or a memory daemon"


_ENDING_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_KILLED = (Cause.KILLED, Cause.MEMORY)


def exit_cause(number: int | None, oom: bool | None) -> Cause:
    """Return the cause of a failure by an exit.

    `number` is a signal, `oom` as in `kill_cause`.
    """
    if number is None:
        return Cause.EXITED
    if number == signal.SIGKILL and oom:
        return Cause.MEMORY
    return Cause.KILLED if number in _ENDING_SIGNALS else Cause.CRASHED


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL; 'signal 40' if it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _after(windows: int) -> str:
    """Return 'after 2 windows', or 'before the first window'."""
    counted = f"{windows} window{'s' * (windows > 1)}"
    return f"after {counted}" if windows else "before the first window"


def _line(text: str) -> str:
    """Return the text as one line that any encoding can hold."""
    return one_line(text.encode("utf-8", "replace").decode())


# Reasons that end a worker before it has measured all windows.
EARLY = frozenset({"precision", "seconds", "epochs"})
# Per process; bounds the memory of the controller.
_MOST_WINDOWS = 400_000
_FAILURE_WIDTH = 1000


@dataclass(frozen=True, kw_only=True)
class Deadlines:
    """Time limits of a job in seconds: rendezvous, first window, progress, exit.

    Between windows the limit is the larger of `progress` and `progress_factor` times the slowest
    window so far.
    """

    rendezvous: float = limits.RENDEZVOUS_SECONDS
    first_window: float = limits.FIRST_WINDOW_SECONDS
    progress: float = limits.PROGRESS_SECONDS
    progress_factor: float = 10.0
    ending: float = limits.ENDING_SECONDS


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """End of a job: status of its record, cause of a failure, notes on a success.

    silent    hosts without a heartbeat; the controller does not wait for them
    stopped   whether the user stopped the job, and with it the sweep
    code      exit code of a script's job
    suspects  ids of the processes that caused the failure
    cause     kind of the failure; None on a success
    """

    status: str
    message: str = ""
    notes: tuple[Note, ...] = ()
    silent: tuple[str, ...] = ()
    stopped: bool = False
    code: int = 0
    suspects: tuple[str, ...] = ()
    cause: Cause | None = None


class JobMonitor:
    """Monitor of one job: takes the agents' messages and gives the verdict.

    `windows` is the number that each worker measures, warm-up included, unless it reports that
    fewer are enough; 0 if epochs decide.
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
        self.placed = 0.0  # when the first process got its rank
        self.windows = windows
        self.idle: tuple[Note, ...] = ()
        # In order of their messages: the first failure causes the others.
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
        """Take a message of an agent; yield its events."""
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
            code, number, oom = (values.get(key) for key in ("code", "signal", "oom"))
            self.take_exit(name, code, number, message.at, oom)
        elif message.say == "started" and name in self.states:
            self.states[name].pid = values["pid"]
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
            found = machine | {"gpu_programs": tuple(machine["gpu_programs"])}
            self.take_counters(host, MachineCounters(at=at, **found, **self._use(host, values)))
        for name, seconds in values["cpu"].items():
            gpus = self.states[name].process.gpus if name in self.states else ()
            busy = tuple(values["gpu"][str(gpu)] for gpu in gpus if str(gpu) in values["gpu"])
            self.take_utilization(name, Utilization(at=at, cpu_seconds=seconds, gpus=busy))

    def _use(self, host: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return the use of a host's servers and GPUs by the job, by the host's heartbeat."""
        cpu, delay = values["cpu"], values.get("delay", {})
        known = [self.states[name].process for name in cpu if name in self.states]
        own = [process for process in known if process.host.name == host]
        servers = tuple(
            ServerUse(process=one.id, cpu_seconds=cpu[one.id], run_delay=delay.get(one.id))
            for one in own
            if one.role == "server"
        )
        gpus = {str(gpu) for process in own for gpu in process.gpus}
        return {"servers": servers, "gpus": gpu_use(values, gpus) if gpus else None}

    def take_sign_of_life(self, host: str, now: float) -> None:
        """Take a sign of life of a host's agent."""
        if now - self.agents[host] > limits.AGENT_PAUSE_SECONDS:
            self.resumed[host] = now
        self.agents[host] = now

    def take_output(self, name: str, line: str) -> None:
        """Take a line that a process printed."""
        if line.strip():
            self.states[name].tail.append(_line(line)[:TAIL_WIDTH])

    def take_stopped(self, host: str, names: Collection[str]) -> None:
        """Take the names of a host's suspended processes."""
        for one in self.states.values():
            if one.process.host.name == host:
                one.stopped = one.process.id in names

    def take_utilization(self, name: str, use: Utilization) -> None:
        """Take the CPU time and GPU load of a process."""
        if name in self.states:
            self.states[name].uses.append(use)

    def take_counters(self, host: str, counted: MachineCounters) -> None:
        """Take a machine's counters; keep the first and last while all workers measure.

        Before each worker has finished a window, and after the last one, interference is harmless.
        """
        over = any(one.log.measured or one.log.done is not None for one in self.workers)
        if not over and all(one.log.windows for one in self.workers):
            self.machines[host] = extended(self.machines.get(host), counted)

    def take_event(self, name: str, event: Event, now: float) -> None:
        """Take an event of a process."""
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
            for worker in self.workers:  # CPU time of the start-up does not count
                worker.uses.clear()
        elif event.kind == "done":
            early = event.values.get("ended") in EARLY
            if len(one.log.windows) < self.windows and not early:
                one.failure = f"done after {len(one.log.windows)} of {self.windows} windows"
        elif event.kind == "failed":
            one.failure = _line(event.values["message"])[:_FAILURE_WIDTH]
        self._bound(one)
        self._note(one)

    def _bound(self, one: ProcessState) -> None:
        """Fail a process that reports more than it can have measured."""
        most = self.windows or _MOST_WINDOWS
        if len(one.log.windows) > most:
            one.failure = f"reported more than {most} windows"
        elif len(one.log.epochs) > _MOST_WINDOWS:
            one.failure = f"reported more than {_MOST_WINDOWS} epochs"

    def take_malformed(self, name: str, why: str, now: float) -> None:
        """Take a malformed event, which fails the process."""
        one = self.states[name]
        one.last_report = now
        one.failure = one.failure or f"malformed event: {why}"
        self._note(one)

    def take_exit(
        self, name: str, code: int | None, number: int | None, now: float, oom: bool | None = None
    ) -> None:
        """Take the exit of a process, by exit code or by signal; `oom` as in `kill_cause`."""
        one = self.states[name]
        one.exit, one.last_report = one.exit_text(code, number, oom), now
        one.cause = exit_cause(number, oom)
        self._note(one)

    def _note(self, one: ProcessState) -> None:
        if (one.failure or one.broken) and one not in self.failed:
            self.failed.append(one)

    @property
    def _roots(self) -> list[ProcessState]:
        """The process that the others meet at; empty if they do not meet."""
        return [one for one in self.states.values() if one.process.listens]

    def root_failed(self) -> bool:
        """Return whether the root failed before the rendezvous was done."""
        return not self.met and any(one.broken for one in self._roots)

    def ended(self, now: float) -> Verdict | None:
        """Return the verdict by the messages so far, or None."""
        complete = all(one.exit == "ok" and not one.failure for one in self.states.values())
        return self._lost or self._broken(now) or (Verdict(status="ok") if complete else None)

    def late(self, now: float) -> Verdict | None:
        """Return the verdict by overdue messages, or None."""
        verdict = self._silent(now) or self._displaced(now, limits.PLACE_SECONDS)
        if verdict:
            return verdict
        if all(worker.log.done is not None for worker in self.workers):
            return self._ending(now)
        return self._hung(now) if self.met else self._meeting(now)

    def _broken(self, now: float) -> Verdict | None:
        if self.failed:
            # A killed process makes others fail, which can report it before the kill is known.
            one = next((one for one in self.failed if one.cause in _KILLED), self.failed[0])
            # Its own report of the failure and its exit belong into one message.
            if not one.broken and now - one.last_report <= limits.EXIT_SECONDS:
                return None
            what = one.exit if one.broken else "failed"
            # A foreign server corrupts the weights, which a worker reports as its own failure.
            message = f"{one.label} {what}{one.last_words}"
            failed = Verdict(
                status="failed", message=message, suspects=_ids([one]), cause=one.cause
            )
            return self._displaced(now, limits.ORDER_SECONDS) or failed
        for one in self.states.values():
            if self._deserted(one, now):
                waiting = [worker for worker in self.workers if worker.log.done is None]
                message = f"{one.label} exited before {_labels(self._blamed(waiting))} was done"
                deserted = Verdict(
                    status="failed", message=message, suspects=_ids([one]), cause=Cause.EXITED
                )
                return self._displaced(now, 0.0) or deserted
        return None

    def _deserted(self, one: ProcessState, now: float) -> bool:
        """Whether a server or scheduler exited normally while workers still need it."""
        if one.process.role == "worker" or one.exit != "ok":
            return False
        hosts = {worker.process.host.name for worker in self.workers if worker.log.done is None}
        if any(now - self.agents[host] > limits.AGENT_PAUSE_SECONDS for host in hosts):
            return False  # their workers may be done: the agent's silence comes first
        since = max((one.last_report, *(self.resumed[host] for host in hosts)))
        return bool(hosts) and now - since > limits.ORDER_SECONDS

    def _silent(self, now: float) -> Verdict | None:
        limit = limits.AGENT_SILENCE_SECONDS
        silent = [host for host, last in self.agents.items() if now - last > limit]
        if not silent:
            return None
        message = error_line(
            ", ".join(silent),
            problem=f"no heartbeat from the agent for {limit:.0f} s: host or network down, or "
            f"suspended; an agent without a controller ends its processes by itself",
            fix="Run 'fab hosts.check' with the same hosts",
        )
        return Verdict(status="lost", message=message, silent=tuple(silent), cause=Cause.LOST)

    def _hung(self, now: float) -> Verdict | None:
        slowest = max((w["seconds"] for one in self.workers for w in one.log.windows), default=0.0)
        progress = max(self.deadlines.progress, self.deadlines.progress_factor * slowest)
        allowed = progress if slowest else self.deadlines.first_window
        if now - max(self.met, *(one.last_report for one in self.workers)) <= allowed:
            return None
        waiting = [one for one in self.workers if one.log.done is None]
        least = min(len(one.log.windows) for one in waiting)
        blamed = self._blamed([one for one in waiting if len(one.log.windows) == least])
        return Verdict(
            status="hung",
            message=f"no progress for {allowed:.0f} s {_after(least)}: {_labels(blamed)}",
            suspects=_ids(blamed),
            cause=Cause.STALLED,
        )

    def _blamed(self, suspects: Sequence[ProcessState]) -> Sequence[ProcessState]:
        """Return the processes that the job waits for: the suspended ones, if any."""
        stopped = [one for one in self.states.values() if one.stopped and not one.exit]
        return stopped or suspects

    def _displaced(self, now: float, seconds: float) -> Verdict | None:
        """Return a verdict if some processes have had ranks for `seconds`, others none."""
        if not self.placed or now - self.placed <= seconds:
            return None
        left = [
            one
            for one in self.states.values()
            if not (one.process.listens or one.registered or one.exit) and one.log.rank is None
        ]
        roots = self._roots
        if not left or not roots or any(one.stopped for one in self.states.values()):
            return None
        root = roots[0].process
        return Verdict(
            status="failed",
            message=error_line(
                _labels(left),
                expected=f"a rank from the {root.role} at {root.listens}",
                got="none",
                problem="another program joined the job and took it (MXNet has no authentication)",
                fix="Use a network that only this job's hosts can reach",
            ),
            suspects=_ids(left),
            cause=Cause.FOREIGN,
        )

    def _meeting(self, now: float) -> Verdict | None:
        if now - self.began <= self.deadlines.rendezvous:
            return None
        if displaced := self._displaced(now, 0.0):
            return displaced
        within = f"rendezvous not complete after {self.deadlines.rendezvous:.0f} s"
        everyone = self.states.values()
        roots = self._roots
        # If the root does not listen, no process can reach it.
        missing = [one for one in roots if one.stopped or not one.reached]
        missing = missing or [one for one in everyone if one.stopped or not one.reached]
        waiting = [one for one in self.workers if one.log.rank is None]
        if missing:
            why = f"missing: {_labels(missing)}"
        else:
            met = roots[0].process.role if roots else "rendezvous"
            why = f"all reached the {met}, but {_labels(waiting)} got no rank; see their logs"
        suspects = _ids(missing or waiting)
        return Verdict(
            status="timeout",
            message=f"{within}; {why}",
            suspects=suspects,
            cause=Cause.RENDEZVOUS,
        )

    def _ending(self, now: float) -> Verdict | None:
        last = max(worker.last_report for worker in self.workers)
        left = [one for one in self.states.values() if not one.exit]
        if not left or now - last <= self.deadlines.ending:
            return None
        if displaced := self._displaced(now, 0.0):
            return displaced
        return Verdict(
            status="hung",
            message=f"training finished, but not all processes exited within "
            f"{self.deadlines.ending:.0f} s: {_labels(self._blamed(left))}",
            suspects=_ids(self._blamed(left)),
            cause=Cause.STALLED,
        )


def _labels(states: Iterable[ProcessState]) -> str:
    return ", ".join(one.label for one in states)


def _ids(states: Iterable[ProcessState]) -> tuple[str, ...]:
    return tuple(one.process.id for one in states)


def _no_agent(message: Message) -> Verdict:
    if message.say == "refused":
        why = f"{message.values['id']} could not be started: {message.values['why']}"
        text = f"{message.host.name}: {why}"
        return Verdict(status="failed", message=text, cause=Cause.NOT_STARTED)
    why = message.values.get("why", "its connection closed")
    return Verdict(
        status="lost",
        message=f"{message.host.name}: lost the agent ({why}); its processes ended with it",
        stopped=bool(message.values.get("stopped")),
        cause=Cause.LOST,
    )
