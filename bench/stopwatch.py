"""Times a window, and what a worker tells of it."""

import time
from typing import Any


class Stopwatch:
    """Runs from when it is made, on the clocks of the wall and of this process's processors."""

    def __init__(self) -> None:
        self._cpu, self._start = time.process_time(), time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self._start

    def window(self, index: int, images: int, steps: int) -> dict[str, Any]:
        """What is told of the window that ends now; `end` is in seconds since the epoch."""
        return {
            "index": index,
            "seconds": self.seconds,
            "end": time.time(),
            "cpu_seconds": time.process_time() - self._cpu,
            "images": images,
            "steps": steps,
        }
