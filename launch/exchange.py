"""Exchange: what the master and a program on a host say to each other until one has failed."""

import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from launch.errors import LaunchError
from launch.hosts import Host
from launch.transport import Line, Start, clean, said

_SILENCE_SECONDS = 15.0
_BEAT_SECONDS = 1.0
_CLOSE_SECONDS = 2.0
_AHEAD = 2
_AGAIN = "run it again, it goes on where it stopped"


class Exchange:
    """A line to a host on which nothing blocks for ever: two threads write and read it.

    Raises LaunchError, naming the host, where the program fails, falls silent or is gone.
    """

    def __init__(self, host: Host, start: Start, modules: tuple[str, ...]) -> None:
        self._host = host
        self._line: Line = start(host, modules)
        self._outbox: queue.Queue[bytes] = queue.Queue(_AHEAD)
        self._inbox: queue.Queue[dict[str, Any]] = queue.Queue()
        self._heard = time.monotonic()
        self._closed = False
        for work in (self._speak, self._listen):
            threading.Thread(target=work, daemon=True).start()

    def send(self, message: dict[str, Any], data: bytes = b"") -> None:
        """Sends a message and the bytes that belong to it, as fast as the line takes them."""
        whole = json.dumps(message).encode() + b"\n" + data
        while True:
            with contextlib.suppress(queue.Empty):
                self._check(self._inbox.get_nowait())
            with contextlib.suppress(queue.Full):
                return self._outbox.put(whole, timeout=_BEAT_SECONDS)
            self._check_silence()

    def hear(self, say: str) -> Iterator[dict[str, Any]]:
        """Messages as they come, beats too, the last of them the one that says this."""
        while True:
            try:
                message = self._inbox.get(timeout=_BEAT_SECONDS)
            except queue.Empty:
                self._check_silence()
                continue
            self._check(message)
            yield message
            if message["say"] == say:
                return

    def close(self) -> None:
        """Closes the line, which ends the program; a line that is stuck is left to its threads."""
        self._closed = True
        closing = threading.Thread(target=self._line.close, args=(_CLOSE_SECONDS,), daemon=True)
        closing.start()
        closing.join(3 * _CLOSE_SECONDS)

    def _check(self, message: dict[str, Any]) -> None:
        if message["say"] == "failed":
            raise LaunchError(f"{self._host.name}: {message['why']}")
        if message["say"] == "lost":
            why = self._line.last_words() or "the program there ended, or the line was cut"
            raise LaunchError(f"{self._host.name}: {why}; {_AGAIN}")

    def _check_silence(self) -> None:
        if time.monotonic() - self._heard > _SILENCE_SECONDS:
            why = f"said nothing for {_SILENCE_SECONDS:.0f} s"
            raise LaunchError(f"{self._host.name}: {why}; {_AGAIN}")

    def _speak(self) -> None:
        while not self._closed:
            try:
                data = self._outbox.get(timeout=_BEAT_SECONDS)
            except queue.Empty:
                data = b'{"do": "beat"}\n'
            self._line.write(data)

    def _listen(self) -> None:
        for line in self._line.lines():
            self._heard = time.monotonic()
            message = said(line)
            if message is not None:
                self._inbox.put(clean(message))
        self._inbox.put({"say": "lost"})
