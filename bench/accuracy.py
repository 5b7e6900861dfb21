"""Training accuracy, counted on the devices and read when nothing is measured."""

from collections.abc import Sequence
from typing import Any


class Accuracy:
    """How many training images got their label as the best guess, since it was last read.

    The network's own graph finds the hits of each step; `read` alone waits for them.
    """

    def __init__(self) -> None:
        self._hits: list[Any] = []

    def count(self, hits: Sequence[Any]) -> None:
        """Count a step: for each device 1 or 0 of each of its images."""
        self._hits += hits

    def read(self) -> tuple[int, int]:
        """Correct guesses and images since the last call; waits for the steps that were counted."""
        arrays = [one.asnumpy() for one in self._hits]
        self._hits = []
        return int(sum(one.sum() for one in arrays)), sum(map(len, arrays))
