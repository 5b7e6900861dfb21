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


class Agents:
    """One agent a host, started when a job first needs it; what they say arrives in `inbox`."""

    def __init__(self) -> None:
        self.inbox: queue.Queue[Message] = queue.Queue()
        self._channels: dict[str, Channel] = {}
        self._at_work: set[str] = set()

    def begin_job(self, hosts: Iterable[Host]) -> None:
        """Sees to it that every host has an agent; all start side by side."""
        idle = [self.inbox.get() for _ in range(self.inbox.qsize())]
        if any(message.say in GONE for message in idle):
            self.close()
        for host in hosts:
            if host.name not in self._channels:
                self._channels[host.name] = connect(host, self.inbox)
            self._at_work.add(host.name)

    def send(self, host: Host, message: dict[str, object]) -> None:
        """Sends a command to the host's agent."""
        self._channels[host.name].send(message)

    def end_job(self, take: Callable[[Message], None]) -> None:
        """Returns once every process of the job is gone; `take` gets what they still said.

        Where an agent does not answer, all are replaced by new ones.
        """
        for name in self._at_work:
            self._channels[name].send({"do": "stop"})
        deadline = time.monotonic() + _STOP_SECONDS
        while self._at_work:
            try:
                message = self.inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if message.say in GONE:
                break
            take(message)
            if message.say == "stopped":
                self._at_work.discard(message.host.name)
        if self._at_work:
            self.close(take)

    def close(self, take: Callable[[Message], None] = lambda _: None) -> None:
        """Ends the agents, and with them everything that they started."""
        channels, self._channels, self._at_work = list(self._channels.values()), {}, set()
        if channels:
            with ThreadPoolExecutor(len(channels)) as pool:
                list(pool.map(lambda channel: channel.close(), channels))
        while not self.inbox.empty():
            take(self.inbox.get())
