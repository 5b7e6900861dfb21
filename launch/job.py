"""Runs the processes of one job on their hosts' agents and watches them to the end."""

import secrets
import time
from collections.abc import Generator, Iterator
from pathlib import Path

from bench.event_decoder import decoded
from bench.events import Event
from launch.agents import GONE, Agents
from launch.channel import Message
from launch.disturbed import Counted
from launch.errors import LaunchError
from launch.glimpse import glimpse
from launch.logs import BUDGET_BYTES, Logs
from launch.use import Use
from launch.watch import Verdict, Watch
from results.progress import Glimpse

_TURN_SECONDS = 0.2
# To judge a job means to look at each of its processes.
_JUDGE_SECONDS = 0.05
_GLIMPSE_SECONDS = 1.0


def run(
    watch: Watch, agents: Agents, logs: Path, log_budget: int = BUDGET_BYTES, started: str = ""
) -> Generator[Event | Glimpse, None, Verdict]:
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


def _follow(watch: Watch, agents: Agents, logs: Logs) -> Generator[Event | Glimpse, None, Verdict]:
    looked = judged = mark = time.monotonic()
    while True:
        if time.monotonic() - looked >= _GLIMPSE_SECONDS:
            looked = time.monotonic()
            yield glimpse(watch, looked)
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


def _take(watch: Watch, message: Message, logs: Logs) -> Iterator[Event]:
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


def _beat(watch: Watch, message: Message) -> None:
    values = message.values
    watch.held(message.host.name, values["stopped"])
    if values["machine"]:
        told = values["machine"] | {"gpu_programs": tuple(values["machine"]["gpu_programs"])}
        watch.counted(message.host.name, Counted(at=values["at"], **told))
    for name, seconds in values["cpu"].items():
        gpus = watch.seen[name].process.gpus if name in watch.seen else ()
        busy = tuple(values["gpu"][str(gpu)] for gpu in gpus if str(gpu) in values["gpu"])
        watch.used(name, Use(at=values["at"], cpu_seconds=seconds, gpus=busy))
