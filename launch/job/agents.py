"""Agents: the open channels of a sweep, kept from one job to the next."""

import queue
import time
from collections.abc import Callable, Iterable
from typing import Any

from bench.engines.server_commands import SECRET_VARIABLE
from bench.settings.secrets import revealed
from launch.hosts import Host, lease_owner
from launch.job.plan import Process
from launch.remote import agent, limits
from launch.remote.errors import LaunchError, PreflightError
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


class AgentChannel:
    """The agent of a host; its messages arrive in the inbox. `close` ends all that it started."""

    def __init__(self, host: Host, start: Starter, inbox: Inbox) -> None:
        self.host = host
        self._messages = AgentMessages(time.monotonic())
        self.program = RemoteProgram(host, start, "agent", parse=self._parse, inbox=inbox)

    def send(self, message: dict[str, Any]) -> None:
        """Sends one command; a channel that is gone takes it silently and says 'lost'."""
        self._messages.asked(message)
        self.program.send(message)

    def close(self, seconds: float | None = None) -> None:
        """Closes the line, upon which the agent ends everything; waits so long for it to go."""
        seconds = limits.AGENT_CLOSE_SECONDS if seconds is None else seconds
        lost = bool(self.program.violation) and self.host.login is not None
        self.program.close(0.0 if lost else seconds)

    def _parse(self, line: bytes) -> tuple[str, dict[str, Any]] | None:
        return self._messages.read(line, time.monotonic())


# The last message of an agent is one of these.
GONE = frozenset({"lost", "ending"})
Take = Callable[[Message], None]


class Agents:
    """One agent a host, started when a job first needs it and replaced when it is gone."""

    def __init__(self, start: Starter = start_local) -> None:
        self._start = start
        self.inbox: Inbox = queue.SimpleQueue()
        self.channels: dict[str, AgentChannel] = {}
        self._at_work: set[str] = set()
        self._gone: set[str] = set()
        self._last_message: dict[str, float] = {}

    def begin_job(self, hosts: Iterable[Host]) -> None:
        """Sees to it that every host has an agent; all start side by side.

        Raises LaunchError where a host cannot be reached; those that can be keep their agents.
        """
        self._drop_gone(lambda _: None)
        late = time.monotonic() - limits.AGENT_SILENCE_SECONDS
        for name in [name for name in self.channels if self._last_message.get(name, late) < late]:
            self.give_up(name)  # it fell silent while no job of it ran, and is connected anew
        wanted = {host.name: host for host in hosts}
        missing = [host for name, host in wanted.items() if name not in self.channels]
        # Over SSH side by side; a process on this machine starts at once.
        at_once = len(missing) if any(host.login for host in missing) else 1
        made, failed = {}, []
        for place, opened in as_completed(catch_errors(self._opened), missing, at_once):
            if isinstance(opened, LaunchError):
                failed.append(str(opened))
            else:  # at once, so that `close` ends it whatever becomes of the others
                made[missing[place].name] = self.channels[missing[place].name] = opened
        self._last_message.update(dict.fromkeys(made, time.monotonic()))
        if failed:
            raise LaunchError("; ".join(failed))
        self._await_leases({name for name, host in wanted.items() if host.login} & set(made))
        self._at_work.update(wanted)

    def _await_leases(self, names: set[str]) -> None:
        """Returns once these hosts are ours; PreflightError where another master has one."""
        deadline = time.monotonic() + limits.AGENT_ANSWER_SECONDS
        while names and (message := self._receive_until(deadline)) is not None:
            if message.host.name in names and message.say in GONE:
                why = message.values.get("why", "its agent is gone")
                raise PreflightError(f"{message.host.name}: {why}")
            if message.say == "leased":
                names.discard(message.host.name)
        if names:
            raise LaunchError(f"{', '.join(sorted(names))}: no answer from the agent there")

    def _opened(self, host: Host) -> AgentChannel:
        channel = AgentChannel(host, self._start, self.inbox)
        if host.login is not None:
            channel.send({"do": "lease", "owner": lease_owner(host)})
        return channel

    def send(self, host: Host, message: dict[str, object]) -> None:
        """Sends a command to the host's agent."""
        self.channels[host.name].send(message)

    def start(self, process: Process, secret: str) -> None:
        """Has the agent of its host start a process of the job with this secret."""
        message: dict[str, object] = {
            "do": "start",
            "id": process.id,
            "argv": list(process.argv),
            "env": {**revealed(process.env), SECRET_VARIABLE: secret},
            "bare": process.bare,
            "cwd": process.host.tree,
            "cores": list(process.cores),
            "gpus": list(process.gpus),
        }
        self.send(process.host, message)

    def free_port(self, host: Host, wanted: int | None) -> int:
        """A port that can be bound on a host now: `wanted`, or any; LaunchError where it is not."""
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
                why = message.values.get("why", "its agent is gone")
                raise LaunchError(f"{host.name}: {why}")
        raise LaunchError(
            f"{host.name}: its agent said nothing for {limits.AGENT_ANSWER_SECONDS:.0f} s"
        )

    def receive(self, seconds: float) -> Message | None:
        """The next message of any agent, or None where none comes for so long."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                message = self.inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            message.taken()
            name = message.host.name
            if name in self.channels and self.channels[name].program.flow is message.flow:
                break  # of a channel that was given up nothing counts any more
        self._last_message[name] = time.monotonic()
        if message.say in GONE:
            self._gone.add(name)
        return message

    def _receive_until(self, deadline: float) -> Message | None:
        """As `receive`; None from the deadline on, also if some agent never pauses."""
        left = deadline - time.monotonic()
        return self.receive(left) if left > 0 else None

    def end_job(self, take: Take) -> None:
        """Returns once every process of the job is gone; `take` gets their last messages.

        An agent that does not answer is ended itself.
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
        """Waits no longer for a host that has fallen silent; its agent ends what is there."""
        channel = self.channels.pop(name, None)
        if channel is None:
            return
        self._at_work.discard(name)
        # One on this machine may only be held, and is woken; none on a cut network could be.
        channel.close() if channel.host.login is None else channel.close(0.0)

    def _drop_gone(self, take: Take) -> None:
        """Closes the channels of agents that are gone; `take` gets their last messages."""
        self._drain(take)
        gone = self._gone & set(self.channels)
        _close([self.channels[name] for name in gone])
        self._drain(take)
        for name in gone:
            del self.channels[name]
        self._gone &= set(self.channels)
        self._at_work &= set(self.channels)

    def _drain(self, take: Take) -> None:
        """Takes what is there now; an agent that never pauses does not keep this from its end."""
        for _ in range(self.inbox.qsize()):
            message = self.receive(0.0)
            if message is not None:
                take(message)

    def close(self) -> None:
        """Ends the agents, and with them everything that they started."""
        _close(list(self.channels.values()))
        self.channels = {}


def _close(channels: list[AgentChannel]) -> None:
    map_hosts(lambda channel: channel.close(), channels, len(channels))
