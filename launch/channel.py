"""Channel: an open line to the agent of a host; messages both ways, heartbeats included."""

import json
import queue
import threading
from dataclasses import dataclass
from typing import Any

from launch.hosts import Host
from launch.transport import Line, Start, clean, said

_BEAT_SECONDS = 1.0
_CLOSE_SECONDS = 8.0
# Agents say something every second, however busy their hosts are.
SILENCE_SECONDS = 6.0
_MODULES = ("errors", "ports", "lease", "processes", "boot", "energy", "counters", "gpus", "agent")


@dataclass(frozen=True, kw_only=True)
class Message:
    """What the agent on a host said; `say` is 'lost' once when its line is gone."""

    host: Host
    say: str
    values: dict[str, Any]


class Channel:
    """The agent of a host; what it says arrives in the inbox. `close` ends all that it started."""

    def __init__(self, host: Host, start: Start, inbox: "queue.Queue[Message]") -> None:
        self.host = host
        self._line: Line = start(host, _MODULES)
        self._inbox = inbox
        self._closed = threading.Event()
        self._threads = (
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._beat, daemon=True),
        )
        for thread in self._threads:
            thread.start()

    def send(self, message: dict[str, Any]) -> None:
        """Sends one command; a channel that is gone takes it silently and says 'lost'."""
        self._line.write((json.dumps(message) + "\n").encode())

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Closes the line, upon which the agent ends everything; waits so long for it to go."""
        self._closed.set()
        self._line.close(seconds)
        for thread in self._threads:
            thread.join(_BEAT_SECONDS)

    def _listen(self) -> None:
        for line in self._line.lines():
            values = said(line)
            if values is not None:  # what processes print stays as it is
                values = {k: v if k == "lines" else clean(v) for k, v in values.items()}
                self._inbox.put(Message(host=self.host, say=values.pop("say"), values=values))
        why = self._line.last_words()
        self._inbox.put(Message(host=self.host, say="lost", values={"why": why} if why else {}))

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_SECONDS):
            self.send({"do": "beat"})
