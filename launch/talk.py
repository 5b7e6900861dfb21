"""Talk: a program on a host that answers one message with one message, each within a time."""

import contextlib
import json
import queue
import threading
import time
from typing import Any

from launch.errors import LaunchError
from launch.hosts import Host
from launch.transport import Start, clean, said

_CLOSE_SECONDS, _ABANDON_SECONDS = 2.0, 0.5
# The modules of `probe`, the program that looks at a host.
PROBE = ("errors", "lease", "code", "boot", "machine", "interpreter", "probe")


class Talk:
    """A program that was started to be asked; closing it ends it."""

    def __init__(self, host: Host, start: Start, modules: tuple[str, ...]) -> None:
        self._host = host
        self._asked = 0
        self._line = start(host, modules)
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer; LaunchError if the program breaks or ends, or the time is over, before it.

        What does not answer this question, such as a late answer to another, is passed over.
        """
        self._asked += 1
        self._line.write((json.dumps({**message, "n": self._asked}) + "\n").encode())
        deadline = time.monotonic() + seconds
        with contextlib.suppress(queue.Empty):
            while True:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
                if answer is None:
                    why = self._line.last_words() or "the connection is gone"
                    raise LaunchError(f"{self._host.name}: its probe ended: {why}")
                if answer.pop("n", None) != self._asked:
                    continue
                if answer["say"] == "broken":
                    raise LaunchError(f"{self._host.name}: {answer['why']}")
                return answer
        raise LaunchError(
            f"{self._host.name}: no answer within {seconds:.0f} s to {message['do']!r}; is the "
            f"host overloaded, or its disk or a file system of it stuck?"
        )

    def close(self) -> None:
        """Ends the program."""
        self._line.close(_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)

    def abandon(self) -> None:
        """Ends the program, on another host with the connection, and does not wait for it."""
        self._line.close(_ABANDON_SECONDS if self._host.login is None else 0.0)

    def _listen(self) -> None:
        for line in self._line.lines():
            values = said(line)
            if values is not None:
                self._answers.put(clean(values))
        self._answers.put(None)
