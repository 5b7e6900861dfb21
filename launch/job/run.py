"""Execution of one job: start its processes by agents, follow them to the end."""

import logging
import secrets
import signal
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from bench.events import Event
from launch.job.agents import GONE, Agents, Take
from launch.job.controller_log import clean
from launch.job.logs import BUDGET_BYTES, Logs
from launch.job.monitor import JobMonitor, Verdict, kill_cause, signal_name
from launch.job.plan import Process
from launch.job.progress import job_progress
from launch.remote import limits
from launch.remote.errors import LaunchError
from launch.transport.client import Message
from results.progress import JobProgress
from results.record import Cause

_LOG = logging.getLogger(__name__)
# Kinds of events of which a job sends thousands.
_FREQUENT = frozenset({"window"})
_TURN_SECONDS = 0.2
# A verdict examines every process of the job, which takes time.
_JUDGE_SECONDS = 0.05
_PROGRESS_SECONDS = 1.0
# After these messages of an agent the job may be over.
_FINAL = GONE | {"refused", "exit"}


class Monitor(Protocol):
    """State of a running job by its agents' messages, without a clock of its own."""

    processes: Sequence[Process]

    def take(self, message: Message) -> Iterable[Event]:
        """Take a message; return its events."""

    def ended(self, now: float) -> Verdict | None:
        """Return the verdict by the messages so far, or None."""

    def late(self, now: float) -> Verdict | None:
        """Return the verdict by overdue messages, or None."""


def run_job(
    monitor: JobMonitor,
    agents: Agents,
    logs: Path,
    log_budget: int = BUDGET_BYTES,
    started: str = "",
) -> Generator[Event | JobProgress, None, Verdict]:
    """Run the job of a trial; yield its events and, once a second, its progress.

    `log_budget` is in bytes per process; `started` names the record that the logs belong to. No
    process is left when this generator ends or is closed. Raises LaunchError if the log folder
    cannot be written.
    """
    writer = Logs(logs, monitor.processes, log_budget, started)
    try:
        try:
            agents.begin_job(process.host for process in monitor.processes)
        except LaunchError as error:
            return Verdict(status="lost", message=str(error), cause=Cause.LOST)
        return (yield from _follow(monitor, agents, writer.take, partial(job_progress, monitor)))
    finally:
        writer.close()


# As in shells: exit codes for a process that did not start, and for one ended by a signal.
_NOT_STARTED, _BY_SIGNAL = 127, 128


class ScriptMonitor:
    """Monitor of a script's job, which reports no events.

    The first process that fails decides the verdict.
    """

    def __init__(self, processes: Sequence[Process], now: float) -> None:
        self.processes = processes
        self._left = {process.id: process for process in processes}
        self._agents = {process.host.name: now for process in processes}
        self._workers_done = 0.0
        self._failed: Verdict | None = None

    def take(self, message: Message) -> tuple[Event, ...]:
        """Take a message of an agent; it has no events."""
        name = message.host.name
        self._agents[name] = message.at
        if message.say in GONE:
            why = message.values.get("why", "its connection closed")
            text = f"{name}: lost the agent ({why})"
            self._failed = Verdict(status="lost", code=1, message=text)
        elif message.say in {"refused", "exit"}:
            self._failed = self._failed or _failure(self._left.pop(message.values["id"]), message)
            if not any(one.role == "worker" for one in self._left.values()):
                self._workers_done = self._workers_done or message.at
        return ()

    def ended(self, now: float) -> Verdict | None:
        """Return the verdict by the messages so far, or None."""
        return self._failed or (None if self._left else Verdict(status="ok"))

    def late(self, now: float) -> Verdict | None:
        """Return the verdict by overdue messages, or None."""
        limit = limits.SCRIPT_SILENCE_SECONDS
        silent = tuple(name for name, last in self._agents.items() if now - last > limit)
        if silent:
            text = f"{', '.join(silent)}: no heartbeat from the agent for {limit:.0f} s"
            return Verdict(status="lost", code=1, message=text, silent=silent)
        over = self._workers_done and now - self._workers_done > limits.SCRIPT_ENDING_SECONDS
        return Verdict(status="ok") if over else None


def _failure(process: Process, message: Message) -> Verdict | None:
    """Return how a process of a script failed; None if it did not."""
    values, name = message.values, f"{process.host.name}: {process.role} {process.index}"
    if message.say == "refused":
        text = f"{name} could not be started: {values['why']}"
        return Verdict(status="failed", code=_NOT_STARTED, message=text)
    number = values.get("signal")
    if number is not None:
        killed = number == signal.SIGKILL
        cause = kill_cause(values.get("oom"), process.host.name) if killed else ""
        text = f"{name} was killed by {signal_name(number)}{cause}"
        return Verdict(status="failed", code=_BY_SIGNAL + number, message=text)
    code = int(values["code"])
    text = f"{name} exited with code {code}"
    return Verdict(status="failed", code=code, message=text) if code else None


def run_script(processes: Sequence[Process], agents: Agents, show: Take) -> Verdict:
    """Run the processes of a script; `show` gets every message.

    No process is left when this returns or raises. Raises LaunchError if a host has no agent.
    """
    agents.begin_job(process.host for process in processes)
    monitor = ScriptMonitor(processes, time.monotonic())
    with closing(_follow(monitor, agents, show)) as job:
        while True:
            try:
                next(job)
            except StopIteration as end:
                verdict: Verdict = end.value
                return verdict


def _follow(
    monitor: Monitor,
    agents: Agents,
    show: Take,
    progress: Callable[[float], JobProgress] | None = None,
) -> Generator[Event | JobProgress, None, Verdict]:
    def show_last(message: Message) -> None:
        """Show the last output of a process that is being ended; its events come too late."""
        if message.say == "output":
            with suppress(LaunchError, BrokenPipeError):
                show(message)

    try:
        secret = secrets.token_hex(32)  # not in the plan: records, reports and logs have plans
        for process in monitor.processes:
            cores = ",".join(map(str, process.cores)) or "any"
            _LOG.info("start %s on %s, cores %s", process.id, process.host.name, cores)
            agents.start(process, secret)
        verdict = yield from _judge(monitor, agents, show, progress)
        for name in verdict.silent:
            agents.give_up(name)
        return verdict
    finally:
        agents.end_job(show_last)


def _log_message(message: Message) -> None:
    """Log the start or the end of a process."""
    if message.say not in {"output", "event", "beat"}:
        facts = (
            str(value) if name == "why" else f"{name} {value}"
            for name, value in message.values.items()
            if isinstance(value, str | int)
        )
        _LOG.info("%s: %s: %s", message.host.name, message.say, clean(", ".join(facts)))


def _judge(
    monitor: Monitor, agents: Agents, show: Take, progress: Callable[[float], JobProgress] | None
) -> Generator[Event | JobProgress, None, Verdict]:
    hosts = {process.host.name for process in monitor.processes}
    reported = judged = mark = time.monotonic()
    while True:
        if progress and time.monotonic() - reported >= _PROGRESS_SECONDS:
            reported = time.monotonic()
            yield progress(reported)
        message = agents.receive(0.0)
        # A message is overdue only if all messages received by then were taken. If an agent never
        # pauses, `mark` is that time.
        if message is None or message.at > mark:
            verdict = monitor.late(time.monotonic() if message is None else mark)
            if verdict is not None:
                return verdict
            mark = time.monotonic() + _JUDGE_SECONDS
        message = message or agents.receive(_TURN_SECONDS)
        if message is not None and message.host.name in hosts:
            _log_message(message)
            show(message)
            for event in monitor.take(message):
                if event.kind not in _FREQUENT:
                    place = message.host.name, clean(str(message.values.get("id", "")))
                    _LOG.debug("%s: %s: event %s", *place, clean(event.kind))
                yield event
        now = time.monotonic()
        if message is None or message.say in _FINAL or now - judged >= _JUDGE_SECONDS:
            judged = now
            verdict = monitor.ended(now)
            if verdict is not None:
                return verdict
