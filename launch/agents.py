"""Agents: the open channels of a sweep, kept from one job to the next."""

import queue
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from launch.hosts import Host
from launch.transport import Channel, Message, connect

# Longer than an agent takes to end what does not want to end.
_STOP_SECONDS = 6.0
# What an agent says last.
GONE = frozenset({"lost", "ending"})
Take = Callable[[Message], None]


class Agents:
    """One agent a host, started when a job first needs it and replaced when it is gone."""

    def __init__(self) -> None:
        self._inbox: queue.Queue[Message] = queue.Queue()
        self._channels: dict[str, Channel] = {}
        self._at_work: set[str] = set()
        self._gone: set[str] = set()

    def begin_job(self, hosts: Iterable[Host]) -> None:
        """Sees to it that every host has an agent; all start side by side."""
        self._drop_gone(lambda _: None)
        for host in hosts:
            if host.name not in self._channels:
                self._channels[host.name] = connect(host, self._inbox)
            self._at_work.add(host.name)

    def send(self, host: Host, message: dict[str, object]) -> None:
        """Sends a command to the host's agent."""
        self._channels[host.name].send(message)

    def receive(self, seconds: float) -> Message | None:
        """What some agent said, or None where none said anything for so long."""
        try:
            message = self._inbox.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        if message.say in GONE:
            self._gone.add(message.host.name)
        return message

    def end_job(self, take: Take) -> None:
        """Returns once every process of the job is gone; `take` gets what they still said.

        An agent that does not answer is ended itself.
        """
        for name in self._at_work - self._gone:
            self._channels[name].send({"do": "stop"})
        deadline = time.monotonic() + _STOP_SECONDS
        while self._at_work - self._gone:
            message = self.receive(deadline - time.monotonic())
            if message is None:
                break
            take(message)
            if message.say == "stopped":
                self._at_work.discard(message.host.name)
        self._gone |= self._at_work
        self._at_work = set()
        self._drop_gone(take)

    def _drop_gone(self, take: Take) -> None:
        """Closes the channels of agents that are gone; `take` gets the last that was said."""
        self._drain(take)
        _close([self._channels.pop(name) for name in self._gone & set(self._channels)])
        self._drain(take)
        self._gone &= set(self._channels)

    def _drain(self, take: Take) -> None:
        while (message := self.receive(0.0)) is not None:
            take(message)

    def close(self) -> None:
        """Ends the agents, and with them everything that they started."""
        _close(list(self._channels.values()))
        self._channels = {}


def _close(channels: list[Channel]) -> None:
    if channels:
        with ThreadPoolExecutor(len(channels)) as pool:
            list(pool.map(lambda channel: channel.close(), channels))
