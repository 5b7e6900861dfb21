"""Channel: an open line to the agent of a host; messages both ways, heartbeats included."""

import json
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from launch.errors import ProtocolError
from launch.flow import Flow
from launch.hosts import Host
from launch.protocol import MOST_LINE, AgentMessages
from launch.transport import Line, Start

_BEAT_SECONDS = 1.0
_CLOSE_SECONDS = 8.0
# Agents say something every second, however busy their hosts are.
SILENCE_SECONDS = 6.0
_MODULES = (
    *("errors", "command", "ports", "lease", "processes", "boot", "energy", "counters", "gpus"),
    "agent",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What the agent on a host said; `say` is 'lost' once when its line is gone.

    at     when it was read: what was read before is known when it is taken
    size   bytes; flow: the channel's, which waits while too much is not `taken`
    """

    host: Host
    say: str
    values: dict[str, Any]
    at: float = field(default_factory=time.monotonic)
    size: int = 0
    flow: Flow | None = None

    def taken(self) -> None:
        """Makes room for what the host says next."""
        if self.flow is not None:
            self.flow.take(self.size)


class Channel:
    """The agent of a host; what it says arrives in the inbox. `close` ends all that it started.

    An agent that breaks the protocol is lost, and nothing more is read from it.
    """

    def __init__(self, host: Host, start: Start, inbox: "queue.SimpleQueue[Message]") -> None:
        self.host = host
        self.flow = Flow()
        self.broken = False
        self._line: Line = start(host, _MODULES)
        self._inbox = inbox
        self._messages = AgentMessages(time.monotonic())
        self._closed = threading.Event()
        self._threads = (
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._beat, daemon=True),
        )
        for thread in self._threads:
            thread.start()

    def send(self, message: dict[str, Any]) -> None:
        """Sends one command; a channel that is gone takes it silently and says 'lost'."""
        self._messages.asked(message)
        self._line.write((json.dumps(message) + "\n").encode())

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Closes the line, upon which the agent ends everything; waits so long for it to go."""
        self._closed.set()
        remote = self.host.login is not None
        self._line.close(0.0 if self.broken and remote else seconds)
        for thread in self._threads:
            thread.join(_BEAT_SECONDS)

    def _listen(self) -> None:
        try:
            for line in self._line.lines(MOST_LINE):
                self._take(line)
            why = self._line.last_words()
        except ProtocolError as error:
            self.broken = True
            why = f"it broke the protocol: {error}"
        values = {"why": why} if why else {}
        self._inbox.put(Message(host=self.host, say="lost", values=values, flow=self.flow))

    def _take(self, line: bytes) -> None:
        found = self._messages.read(line, time.monotonic())
        size = len(line)
        if found is None or not self.flow.read(size, self._closed):
            return
        say, values = found
        self._inbox.put(
            Message(
                host=self.host,
                say=say,
                values=values,
                at=time.monotonic(),
                size=size,
                flow=self.flow,
            )
        )

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_SECONDS):
            self.send({"do": "beat"})
