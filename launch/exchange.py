"""Exchange: what the master and a program on a host say to each other until one has failed."""

import contextlib
import json
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from launch.errors import LaunchError, ProtocolError
from launch.flow import Flow
from launch.hosts import Host
from launch.protocol import MOST_LINE, RECEIVER, Noise, decoded
from launch.transport import Line, Start

_SILENCE_SECONDS = 15.0
_BEAT_SECONDS = 1.0
_CLOSE_SECONDS = 2.0
_AHEAD = 2
_AGAIN = "run it again, it goes on where it stopped"
# Of what a host says of each file that it is asked about.
_FILE_BYTES = 64


class Exchange:
    """A line to a host on which nothing blocks for ever: two threads write and read it.

    Raises LaunchError, naming the host, where the program fails, falls silent or is gone.
    """

    def __init__(self, host: Host, start: Start, modules: tuple[str, ...], files: int = 0) -> None:
        """`files` is how many the host is asked about."""
        self._host, self._most = host, MOST_LINE + _FILE_BYTES * files
        self._line: Line = start(host, modules)
        self._outbox: queue.Queue[bytes] = queue.Queue(_AHEAD)
        self._inbox: queue.SimpleQueue[tuple[str, dict[str, Any], int]] = queue.SimpleQueue()
        self._flow = Flow()
        self._heard = time.monotonic()
        self._closed = threading.Event()
        for work in (self._speak, self._listen):
            threading.Thread(target=work, daemon=True).start()

    def send(self, message: dict[str, Any], data: bytes = b"") -> None:
        """Sends a message and the bytes that belong to it, as fast as the line takes them."""
        whole = json.dumps(message).encode() + b"\n" + data
        while True:
            with contextlib.suppress(queue.Empty):
                self._take(0.0)
            with contextlib.suppress(queue.Full):
                return self._outbox.put(whole, timeout=_BEAT_SECONDS)
            self._check_silence()

    def hear(self, say: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Kinds and fields of messages as they come, beats too; the last of them of this kind."""
        while True:
            try:
                found, values = self._take(_BEAT_SECONDS)
            except queue.Empty:
                self._check_silence()
                continue
            if found not in {say, "beat"}:
                raise self.broken(f"expected {say!a}, got {found!a}")
            yield found, values
            if found == say:
                return

    def close(self) -> None:
        """Closes the line, which ends the program; a line that is stuck is left to its threads."""
        self._closed.set()
        closing = threading.Thread(target=self._line.close, args=(_CLOSE_SECONDS,), daemon=True)
        closing.start()
        closing.join(3 * _CLOSE_SECONDS)

    def broken(self, why: str) -> LaunchError:
        """That the program there sent what no message is."""
        return LaunchError(f"{self._host.name}: its receiver broke the protocol: {why}")

    def _take(self, seconds: float) -> tuple[str, dict[str, Any]]:
        say, values, size = self._inbox.get(timeout=seconds)
        self._flow.take(size)
        if say == "failed":
            raise LaunchError(f"{self._host.name}: {values['why']}")
        if say == "broken":
            raise self.broken(values["why"])
        if say == "lost":
            why = self._line.last_words() or "the program there ended, or the line was cut"
            raise LaunchError(f"{self._host.name}: {why}; {_AGAIN}")
        return say, values

    def _check_silence(self) -> None:
        if time.monotonic() - self._heard > _SILENCE_SECONDS:
            why = f"said nothing for {_SILENCE_SECONDS:.0f} s"
            raise LaunchError(f"{self._host.name}: {why}; {_AGAIN}")

    def _speak(self) -> None:
        while not self._closed.is_set():
            try:
                data = self._outbox.get(timeout=_BEAT_SECONDS)
            except queue.Empty:
                data = b'{"do": "beat"}\n'
            self._line.write(data)

    def _listen(self) -> None:
        noise = Noise()
        try:
            for line in self._line.lines(self._most):
                self._heard = time.monotonic()
                found = decoded(line, RECEIVER)
                if found is None:
                    noise.skip(line)
                elif self._flow.read(len(line), self._closed):
                    self._inbox.put((*found, len(line)))
        except ProtocolError as error:
            self._inbox.put(("broken", {"why": str(error)}, 0))
        self._inbox.put(("lost", {}, 0))
