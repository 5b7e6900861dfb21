"""Talk: a program on a host that answers one message with one message, each within a time."""

import contextlib
import json
import queue
import threading
import time
from typing import Any

from launch.errors import LaunchError, ProtocolError
from launch.flow import Flow
from launch.hosts import Host
from launch.protocol import MOST_LINE, Noise, answer
from launch.transport import Start

_CLOSE_SECONDS, _ABANDON_SECONDS = 2.0, 0.5
# Answers to earlier questions, which came too late.
_MOST_LATE = 100
# The modules of `probe`, the program that looks at a host.
PROBE = ("errors", "command", "lease", "code", "boot", "machine", "interpreter", "probe")
_Answer = tuple[int, str, dict[str, Any], int]


class Talk:
    """A program that was started to be asked; closing it ends it."""

    def __init__(self, host: Host, start: Start, modules: tuple[str, ...]) -> None:
        self._host = host
        self._asked = 0
        self._line = start(host, modules)
        self._answers: queue.SimpleQueue[_Answer | ProtocolError | None] = queue.SimpleQueue()
        self._flow, self._closed = Flow(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def ask(self, message: dict[str, Any], seconds: float, *expected: str) -> dict[str, Any]:
        """The answer, of one of the kinds expected, with its kind as `say`.

        Raises LaunchError if the program breaks or ends, breaks the protocol, or the time is over
        before it. A late answer to an earlier question is skipped.
        """
        self._asked += 1
        self._line.write((json.dumps({**message, "n": self._asked}) + "\n").encode())
        deadline = time.monotonic() + seconds
        with contextlib.suppress(queue.Empty):
            for _ in range(_MOST_LATE):
                found = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
                if isinstance(found, ProtocolError):
                    raise self._broken(str(found))
                if found is None:
                    why = self._line.last_words() or "the connection is gone"
                    raise LaunchError(f"{self._host.name}: its probe ended: {why}")
                number, say, values, size = found
                self._flow.take(size)
                if number != self._asked:
                    continue
                if say == "broken":
                    raise LaunchError(f"{self._host.name}: {values['why']}")
                if say not in expected:
                    raise self._broken(f"expected {' or '.join(expected)}, got {say}")
                return {"say": say, **values}
            raise self._broken("it answers what was not asked")
        raise LaunchError(
            f"{self._host.name}: no answer within {seconds:.0f} s to {message['do']!r}; is the "
            f"host overloaded, or its disk or a file system of it stuck?"
        )

    def _broken(self, why: str) -> LaunchError:
        return LaunchError(f"{self._host.name}: its probe broke the protocol: {why}")

    def close(self) -> None:
        """Ends the program."""
        self._closed.set()
        self._line.close(_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)

    def abandon(self) -> None:
        """Ends the program, on another host with the connection, and does not wait for it."""
        self._closed.set()
        self._line.close(_ABANDON_SECONDS if self._host.login is None else 0.0)

    def _listen(self) -> None:
        noise = Noise()
        try:
            for line in self._line.lines(MOST_LINE):
                number = self._asked
                found = answer(line, number)
                if found is None:
                    noise.skip(line)
                elif self._flow.read(len(line), self._closed):
                    self._answers.put((number, *found, len(line)))
        except ProtocolError as error:
            self._answers.put(error)
        self._answers.put(None)
