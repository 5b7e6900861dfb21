"""Transport: one agent on one host, reached over one channel of JSON lines."""

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from launch.hosts import Host

_BEAT_SECONDS = 1.0
_CLOSE_SECONDS = 8.0
# Reads the agent's length and sources from the channel itself: nothing has to be installed there.
BOOT = (
    "import json, sys, types; s = sys.stdin.buffer.raw; n = b''\n"
    "while not n.endswith(b'\\n'): n += s.read(1) or sys.exit(1)\n"
    "b = b''\n"
    "while len(b) < int(n): b += s.read(int(n) - len(b)) or sys.exit(1)\n"
    "for name, source in json.loads(b):\n"
    "    m = sys.modules[name] = types.ModuleType(name); m.__path__ = []\n"
    "    exec(compile(source, 'mxscale ' + name, 'exec'), m.__dict__)\n"
    "m.main()"
)
_HERE = Path(__file__).parent


def sources() -> bytes:
    """The agent's modules as `BOOT` reads them, the one to run last."""
    modules = [["launch", ""]]
    for name in ("processes", "agent"):
        modules.append([f"launch.{name}", (_HERE / f"{name}.py").read_text(encoding="utf-8")])
    data = json.dumps(modules).encode()
    return b"%d\n" % len(data) + data


@dataclass(frozen=True, kw_only=True)
class Message:
    """What the agent on a host said; `say` is 'lost' once when its channel has closed."""

    host: Host
    say: str
    values: dict[str, Any]


class Channel(Protocol):
    """An open line to an agent. Its messages arrive in the inbox it was opened with."""

    def send(self, message: dict[str, Any]) -> None:
        """Sends one command; a channel that is gone takes it silently and says 'lost'."""

    def close(self) -> None:
        """Closes the line, upon which the agent ends everything; waits for it to go."""


class LocalChannel:
    """An agent on this machine, over two pipes."""

    def __init__(self, host: Host, inbox: "queue.Queue[Message]") -> None:
        # Its own session: Ctrl-C in the terminal reaches the master, which then closes the channel.
        self._agent = subprocess.Popen(
            [sys.executable, "-u", "-c", BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._agent.stdin is not None
        assert self._agent.stdout is not None
        self._stdin = self._agent.stdin
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._write(sources())
        self._threads = (
            threading.Thread(target=_listen, args=(self._agent.stdout, host, inbox), daemon=True),
            threading.Thread(target=self._beat, daemon=True),
        )
        for thread in self._threads:
            thread.start()

    def send(self, message: dict[str, Any]) -> None:
        """Sends one command."""
        self._write((json.dumps(message) + "\n").encode())

    def close(self) -> None:
        """Closes the line and waits until the agent has ended everything and gone."""
        self._closed.set()
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        try:
            self._agent.send_signal(signal.SIGCONT)  # one that is held cannot notice
            self._agent.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._agent.kill()
            self._agent.wait()
        for thread in self._threads:
            thread.join(_BEAT_SECONDS)
        assert self._agent.stdout is not None
        self._agent.stdout.close()

    def _write(self, data: bytes) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._stdin.write(data)
            self._stdin.flush()

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_SECONDS):
            self.send({"do": "beat"})


def _listen(stream: IO[bytes], host: Host, inbox: "queue.Queue[Message]") -> None:
    """Puts whole messages into the inbox; what a host prints beside them is passed over."""
    for line in stream:
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and "say" in values:
            inbox.put(Message(host=host, say=values.pop("say"), values=values))
    inbox.put(Message(host=host, say="lost", values={}))


def connect(host: Host, inbox: "queue.Queue[Message]") -> Channel:
    """Starts the agent on a host."""
    return LocalChannel(host, inbox)
