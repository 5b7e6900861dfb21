"""Runs the processes of one job on their hosts' agents and watches them to the end."""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO

from bench import events
from bench.events import Event
from launch.agents import GONE, Agents
from launch.channel import Message
from launch.errors import LaunchError
from launch.plan import Process
from launch.watch import Verdict, Watch

_TURN_SECONDS = 0.2


class _Logs:
    """The raw output of every process, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, IO[str]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("*.log"):  # by an attempt that failed
            left.unlink()

    def write(self, name: str, line: str) -> None:
        try:
            if name not in self._files:
                self._files[name] = (self._folder / f"{name}.log").open(
                    "w", buffering=1, encoding="utf-8", errors="replace"
                )
            self._files[name].write(line + "\n")
        except OSError as error:
            raise LaunchError(
                f"{self._folder}: cannot be written ({error.strerror}); make room and run the "
                f"same command again. Nothing recorded before is lost"
            ) from error

    def write_quietly(self, message: Message) -> None:
        """Writes what a process said while it was being ended, if it can be written."""
        if message.say == "output":
            with contextlib.suppress(LaunchError):
                for line in message.values["lines"]:
                    self.write(message.values["id"], line)

    def close(self) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):
                file.close()


def run(watch: Watch, agents: Agents, logs: Path) -> Generator[Event, None, Verdict]:
    """Starts the processes of a watch, yields what they say as they say it; returns the verdict.

    Whatever happens, every process is gone when this generator ends or is closed. Raises
    LaunchError where the log folder cannot be written.
    """
    try:
        writer = _Logs(logs)
    except OSError as error:
        raise LaunchError(f"{logs}: cannot be made ({error.strerror})") from error
    try:
        try:
            agents.begin_job(process.host for process in watch.processes)
        except LaunchError as error:
            return Verdict(status="lost", message=str(error))
        for process in watch.processes:
            agents.send(process.host, _start(process))
        return (yield from _follow(watch, agents, writer.write))
    finally:
        agents.end_job(writer.write_quietly)
        writer.close()


def _start(process: Process) -> dict[str, object]:
    return {
        "do": "start",
        "id": process.id,
        "argv": list(process.argv),
        "env": process.env,
        "cwd": process.host.tree,
        "cores": list(process.cores),
    }


def _follow(
    watch: Watch, agents: Agents, log: Callable[[str, str], None]
) -> Generator[Event, None, Verdict]:
    while True:
        message = agents.receive(0.0)
        if message is None:  # only when all that was said has been heard is anyone late
            verdict = watch.late(time.monotonic())
            if verdict is not None:
                return verdict
            message = agents.receive(_TURN_SECONDS)
        if message is not None and message.host.name in watch.agents:
            if message.say in GONE | {"refused"}:
                return _no_agent(message)
            watch.alive(message.host.name, time.monotonic())
            yield from _take(watch, message, log)
        verdict = watch.ended(time.monotonic())
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
    )


def _take(watch: Watch, message: Message, log: Callable[[str, str], None]) -> Iterator[Event]:
    name, values = message.values.get("id", ""), message.values
    if message.say == "output":
        for line in values["lines"]:
            log(name, line)
            watch.printed(name, line)
    elif message.say == "beat":
        watch.held(message.host.name, values["stopped"])
    elif message.say == "exit":
        watch.exited(name, values.get("code"), values.get("signal"), time.monotonic())
    elif message.say == "event":
        for event in filter(None, map(events.parse, values["lines"])):
            watch.hear(name, event, time.monotonic())
            yield event
