"""Flow: how much of what one sender said is unread; its reader waits while that is too much."""

import threading
import time

_MOST_UNREAD = 1 << 20
_TURN_SECONDS = 0.01


class Flow:
    """Bytes of one sender's messages. One thread reads them, another takes them.

    The sender itself then waits too, as its line holds no more.
    """

    def __init__(self, most: int = _MOST_UNREAD) -> None:
        self._most, self._read, self._taken = most, 0, 0

    def read(self, size: int, over: threading.Event) -> bool:
        """Waits for room for one more message; False if there is none before it is over."""
        while self._read - self._taken > self._most:
            if over.is_set():
                return False
            time.sleep(_TURN_SECONDS)
        self._read += size
        return True

    def take(self, size: int) -> None:
        """A message was taken."""
        self._taken += size
