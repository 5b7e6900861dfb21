"""Agents of a sweep: their channels stay open from one job to the next."""

import logging
import queue
import time
from collections.abc import Callable, Iterable
from typing import Any

from bench.engines.server_commands import SECRET_VARIABLE
from bench.settings.secrets import revealed
from launch.hosts import Host, lease_owner
from launch.job.controller_log import PRINTED
from launch.job.plan import Process
from launch.remote import agent, limits
from launch.remote.errors import LaunchError, PreflightError, error_line
from launch.transport.client import (
    Inbox,
    Message,
    RemoteProgram,
    as_completed,
    catch_errors,
    map_hosts,
)
from launch.transport.line import Starter, start_local
from launch.transport.protocol import AgentMessages

_LOG = logging.getLogger(__name__)
_CHECK = "Run 'fab hosts.check' with the same hosts"


class AgentChannel:
    """Channel to a host's agent; messages arrive in the inbox.

    `close` ends its processes.
    """

    def __init__(self, host: Host, start: Starter, inbox: Inbox) -> None:
        self.host = host
        self._messages = AgentMessages(time.monotonic())
        self.program = RemoteProgram(host, start, "agent", parse=self._parse, inbox=inbox)

    def send(self, message: dict[str, Any]) -> None:
        """Send one command; a closed channel ignores it, and its last message is 'lost'."""
        self._messages.asked(message)
        self.program.send(message)

    def close(self, seconds: float | None = None) -> None:
        """Close the connection, which ends the agent and its processes; wait `seconds`."""
        seconds = limits.AGENT_CLOSE_SECONDS if seconds is None else seconds
        lost = bool(self.program.violation) and self.host.login is not None
        self.program.close(0.0 if lost else seconds)

    def _parse(self, line: bytes) -> tuple[str, dict[str, Any]] | None:
        return self._messages.read(line, time.monotonic())


# The last message of an agent is one of these.
GONE = frozenset({"lost", "ending"})
Take = Callable[[Message], None]


class Agents:
    """One agent per host, started on first use and replaced if lost."""

    def __init__(self, start: Starter = start_local) -> None:
        self._start = start
        self.inbox: Inbox = queue.SimpleQueue()
        self.channels: dict[str, AgentChannel] = {}
        self._at_work: set[str] = set()
        self._gone: set[str] = set()
        self._last_message: dict[str, float] = {}

    def begin_job(self, hosts: Iterable[Host]) -> None:
        """Start an agent on every host that has none, in parallel.

        Raises LaunchError if a host cannot be reached; the others keep their agents.
        """
        self._drop_gone(lambda _: None)
        late = time.monotonic() - limits.AGENT_SILENCE_SECONDS
        for name in [name for name in self.channels if self._last_message.get(name, late) < late]:
            self.give_up(name)  # silent since its last job: connect again
        wanted = {host.name: host for host in hosts}
        missing = [host for name, host in wanted.items() if name not in self.channels]
        # Over SSH in parallel; a local process starts at once.
        at_once = len(missing) if any(host.login for host in missing) else 1
        made, failed = {}, []
        for place, opened in as_completed(catch_errors(self._opened), missing, at_once):
            if isinstance(opened, LaunchError):
                failed.append(str(opened))
            else:  # at once, so that `close` ends it even if others fail
                made[missing[place].name] = self.channels[missing[place].name] = opened
                _LOG.info("%s: agent started", missing[place].name)
        self._last_message.update(dict.fromkeys(made, time.monotonic()))
        if failed:
            raise LaunchError("; ".join(failed))
        self._await_leases({name for name, host in wanted.items() if host.login} & set(made))
        self._at_work.update(wanted)

    def _await_leases(self, names: set[str]) -> None:
        """Wait for the leases of these hosts.

        PreflightError if another controller holds one.
        """
        deadline = time.monotonic() + limits.AGENT_ANSWER_SECONDS
        while names and (message := self._receive_until(deadline)) is not None:
            if message.host.name in names and message.say in GONE:
                why = message.values.get("why", "lost the agent")
                raise PreflightError(error_line(message.host.name, problem=why))
            if message.say == "leased":
                names.discard(message.host.name)
        if names:
            seconds = limits.AGENT_ANSWER_SECONDS
            problem = f"no answer from the agent within {seconds:.0f} s"
            raise LaunchError(error_line(", ".join(sorted(names)), problem=problem, fix=_CHECK))

    def _opened(self, host: Host) -> AgentChannel:
        channel = AgentChannel(host, self._start, self.inbox)
        if host.login is not None:
            channel.send({"do": "lease", "owner": lease_owner(host)})
        return channel

    def send(self, host: Host, message: dict[str, object]) -> None:
        """Send a command to the host's agent."""
        self.channels[host.name].send(message)

    def start(self, process: Process, secret: str) -> None:
        """Start a process of the job by its host's agent, with the job's secret."""
        message: dict[str, object] = {
            "do": "start",
            "id": process.id,
            "argv": list(process.argv),
            "env": {**revealed(process.env), SECRET_VARIABLE: secret},
            "bare": process.bare,
            "foreign": list(process.foreign),
            "cwd": process.host.tree,
            "cores": list(process.cores),
            "gpus": list(process.gpus),
        }
        if process.family:
            message["family"] = True
        self.send(process.host, message)

    def free_port(self, host: Host, wanted: int | None) -> int:
        """Return a port that the host can bind: `wanted`, or any.

        LaunchError if there is none.
        """
        if host.login is None:
            return agent.free_port(host.address, wanted)
        self.begin_job([host])
        self.send(host, {"do": "port", "address": host.address, "wanted": wanted})
        deadline = time.monotonic() + limits.AGENT_ANSWER_SECONDS
        while (message := self._receive_until(deadline)) is not None:
            if message.host.name == host.name and message.say in {"port", *GONE}:
                port: int = message.values.get("port", 0)
                if port:
                    return port
                why = message.values.get("why", "lost the agent")
                raise LaunchError(error_line(host.name, problem=why))
        seconds = limits.AGENT_ANSWER_SECONDS
        problem = f"no answer from the agent within {seconds:.0f} s"
        raise LaunchError(error_line(host.name, problem=problem, fix=_CHECK))

    def receive(self, seconds: float) -> Message | None:
        """Return the next message of any agent, or None after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                message = self.inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            message.taken()
            name = message.host.name
            if name in self.channels and self.channels[name].program.flow is message.flow:
                break  # messages of an abandoned channel do not count
        self._last_message[name] = time.monotonic()
        if message.say in GONE:
            self._gone.add(name)
        return message

    def _receive_until(self, deadline: float) -> Message | None:
        """Return the next message, or None after the deadline."""
        left = deadline - time.monotonic()
        return self.receive(left) if left > 0 else None

    def end_job(self, take: Take) -> None:
        """End every process of the job and wait for them; `take` gets their last messages.

        An agent that does not answer is ended, too.
        """
        for name in self._at_work - self._gone:
            self.channels[name].send({"do": "stop"})
        deadline = time.monotonic() + limits.STOP_SECONDS
        while self._at_work - self._gone:
            message = self._receive_until(deadline)
            if message is None:
                break
            take(message)
            if message.say == "stopped":
                self._at_work.discard(message.host.name)
        late = self._at_work - self._gone
        map_hosts(self.give_up, late, len(late))
        self._at_work = set()
        self._drop_gone(take)

    def give_up(self, name: str) -> None:
        """Abandon a silent host; its agent ends its processes by itself."""
        channel = self.channels.pop(name, None)
        if channel is None:
            return
        _LOG.warning("%s: the agent is silent; its connection is closed", name, extra=PRINTED)
        self._at_work.discard(name)
        # A local agent may only be suspended, and closing wakes it; a remote one cannot be woken.
        channel.close() if channel.host.login is None else channel.close(0.0)

    def _drop_gone(self, take: Take) -> None:
        """Close the channels of lost agents; `take` gets their last messages."""
        self._drain(take)
        gone = self._gone & set(self.channels)
        _close([self.channels[name] for name in gone])
        self._drain(take)
        for name in gone:
            del self.channels[name]
        self._gone &= set(self.channels)
        self._at_work &= set(self.channels)

    def _drain(self, take: Take) -> None:
        """Take the messages that are there now, and no later ones."""
        for _ in range(self.inbox.qsize()):
            message = self.receive(0.0)
            if message is not None:
                take(message)

    def close(self) -> None:
        """End the agents, and with them their processes."""
        _close(list(self.channels.values()))
        self.channels = {}


def _close(channels: list[AgentChannel]) -> None:
    map_hosts(lambda channel: channel.close(), channels, len(channels))
