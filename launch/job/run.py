"""Runs the processes of one job on their hosts' agents and watches them to the end."""

import contextlib
import secrets
import signal
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.event_decoder import decoded
from bench.events import Event
from launch.job.agents import GONE, Agents, Message, Take
from launch.job.interference import MachineCounters
from launch.job.logs import BUDGET_BYTES, Logs
from launch.job.monitor import JobMonitor, Utilization, Verdict, signal_name
from launch.job.plan import Process
from launch.job.progress import job_progress
from launch.remote.errors import LaunchError
from results.progress import JobProgress

_PROCESS_TURN_SECONDS = 0.2
# Agents say something every second, however busy their hosts are.
_SILENCE_SECONDS = 7.0
# What servers and the scheduler get once the workers are done.
_GOODBYE_SECONDS = 5.0
# As in shells: what could not be started, and what a signal ended.
_NOT_STARTED, _BY_SIGNAL = 127, 128


@dataclass(frozen=True, kw_only=True)
class JobExit:
    """How a job ended: an exit code, and why where it is not 0."""

    code: int
    message: str = ""


def follow_processes(job: Sequence[Process], agents: Agents, show: Take) -> JobExit:
    """Starts the processes and follows them to the end; every message goes to `show`.

    Whatever happens, every process is gone when this returns or raises. Raises LaunchError where a
    host has no agent.
    """
    try:
        agents.begin_job(process.host for process in job)
        secret = secrets.token_hex(32)  # only scripts of ours read it
        for process in job:
            agents.start(process, secret)
        return _follow_processes(_Running(job, time.monotonic()), agents, show)
    finally:
        agents.end_job(_quietly(show))


def _quietly(show: Take) -> Take:
    """The same, where it is too late to be told that nobody takes it."""

    def shown(message: Message) -> None:
        with contextlib.suppress(LaunchError, BrokenPipeError):
            show(message)

    return shown


def _follow_processes(running: "_Running", agents: Agents, show: Take) -> JobExit:
    while True:
        message = agents.receive(0.0)
        if message is None:  # only when all that was said has been heard is anyone late
            now = time.monotonic()
            for name in (silent := running.silent(now)):
                agents.give_up(name)
            if silent:
                why = f"its agent has said nothing for {_SILENCE_SECONDS:.0f} s"
                return JobExit(code=1, message=f"{', '.join(silent)}: {why}")
            if running.is_late(now):
                return JobExit(code=0)
            message = agents.receive(_PROCESS_TURN_SECONDS)
        if message is not None:
            show(message)
            ending = running.take(message, time.monotonic())
            if ending is not None:
                return ending


class _Running:
    """What is left of a job. No clock of its own."""

    def __init__(self, job: Sequence[Process], now: float) -> None:
        self.left = {process.id: process for process in job}
        self.heard = {process.host.name: now for process in job}
        self.done = 0.0

    def take(self, message: Message, now: float) -> JobExit | None:
        """How the job has ended, by what an agent said."""
        name = message.host.name
        self.heard[name] = now
        if message.say in GONE:
            why = message.values.get("why", "its channel closed")
            return JobExit(code=1, message=f"{name}: its agent is gone ({why})")
        if message.say in {"refused", "exit"}:
            ending = _ending(self.left.pop(message.values["id"]), message)
            if ending.code:
                return ending
            if not self.done and not any(one.role == "worker" for one in self.left.values()):
                self.done = now
        return None if self.left else JobExit(code=0)

    def is_late(self, now: float) -> bool:
        """Whether servers and the scheduler have had their time since the workers were done."""
        return bool(self.done) and now - self.done > _GOODBYE_SECONDS

    def silent(self, now: float) -> list[str]:
        """The hosts whose agents say nothing."""
        return [name for name, heard in self.heard.items() if now - heard > _SILENCE_SECONDS]


def _ending(process: Process, message: Message) -> JobExit:
    """How one process ended."""
    values, who = message.values, f"{process.host.name}: {process.role} {process.index}"
    if message.say == "refused":
        return JobExit(code=_NOT_STARTED, message=f"{who} could not be started: {values['why']}")
    number = values.get("signal")
    if number is None:
        code = int(values["code"])
        return JobExit(code=code, message=f"{who} exited with code {code}")
    hint = " (out of memory?)" if number == signal.SIGKILL else ""
    return JobExit(
        code=_BY_SIGNAL + number, message=f"{who} was killed by {signal_name(number)}{hint}"
    )


_TURN_SECONDS = 0.2
# To judge a job means to look at each of its processes.
_JUDGE_SECONDS = 0.05
_GLIMPSE_SECONDS = 1.0


def run(
    watch: JobMonitor, agents: Agents, logs: Path, log_budget: int = BUDGET_BYTES, started: str = ""
) -> Generator[Event | JobProgress, None, Verdict]:
    """Starts the processes of a watch, yields what they say as they say it; returns the verdict.

    Once a second it yields a glimpse of the job. `log_budget` is how many bytes of what each
    process prints are kept; `started` says of which record they are. Whatever happens, every
    process is gone when this generator ends or is closed. Raises LaunchError where the log folder
    cannot be written.
    """
    writer = Logs(logs, watch.processes, log_budget, started)
    try:
        try:
            agents.begin_job(process.host for process in watch.processes)
        except LaunchError as error:
            return Verdict(status="lost", message=str(error))
        secret = secrets.token_hex(32)  # in no plan: records, reports and logs have plans
        for process in watch.processes:
            agents.start(process, secret)
        verdict = yield from _follow(watch, agents, writer)
        for name in verdict.silent:
            agents.give_up(name)
        return verdict
    finally:
        agents.end_job(writer.write_quietly)
        writer.close()


def _follow(
    watch: JobMonitor, agents: Agents, logs: Logs
) -> Generator[Event | JobProgress, None, Verdict]:
    looked = judged = mark = time.monotonic()
    while True:
        if time.monotonic() - looked >= _GLIMPSE_SECONDS:
            looked = time.monotonic()
            yield job_progress(watch, looked)
        message = agents.receive(0.0)
        # Only when all that was said by some time has been taken is anyone late at that time. If
        # an agent never pauses, that is the time of the mark.
        if message is None or message.at > mark:
            verdict = watch.late(time.monotonic() if message is None else mark)
            if verdict is not None:
                return verdict
            mark = time.monotonic() + _JUDGE_SECONDS
        message = message or agents.receive(_TURN_SECONDS)
        if message is not None and message.host.name in watch.agents:
            if message.say in GONE | {"refused"}:
                return _no_agent(message)
            watch.alive(message.host.name, message.at)
            yield from _take(watch, message, logs)
        now = time.monotonic()
        if message is None or message.say == "exit" or now - judged >= _JUDGE_SECONDS:
            judged = now
            verdict = watch.ended(now)
            if verdict is not None:
                return verdict


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


def _take(watch: JobMonitor, message: Message, logs: Logs) -> Iterator[Event]:
    name, values = message.values.get("id", ""), message.values
    if message.say == "output":
        logs.write(name, values["lines"])
        for line in values["lines"]:
            watch.printed(name, line)
    elif message.say == "beat":
        _beat(watch, message)
    elif message.say == "exit":
        watch.exited(name, values.get("code"), values.get("signal"), message.at)
    elif message.say == "event":
        logs.keep(name, values["lines"])
        for line in values["lines"]:
            try:
                event = decoded(line)
            except ValueError as error:
                watch.broke(name, str(error), message.at)
                continue
            if event is not None:
                watch.hear(name, event, message.at)
                yield event


def _beat(watch: JobMonitor, message: Message) -> None:
    values = message.values
    watch.held(message.host.name, values["stopped"])
    if values["machine"]:
        told = values["machine"] | {"gpu_programs": tuple(values["machine"]["gpu_programs"])}
        watch.counted(message.host.name, MachineCounters(at=values["at"], **told))
    for name, seconds in values["cpu"].items():
        gpus = watch.seen[name].process.gpus if name in watch.seen else ()
        busy = tuple(values["gpu"][str(gpu)] for gpu in gpus if str(gpu) in values["gpu"])
        watch.used(name, Utilization(at=values["at"], cpu_seconds=seconds, gpus=busy))
