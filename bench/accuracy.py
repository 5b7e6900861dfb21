"""Training accuracy, counted on the devices and read when nothing is measured."""

from typing import Any


class Accuracy:
    """How many training images got their label as the best guess, since it was last read.

    Each step adds a few small operators on the devices; `read` alone waits for them.
    """

    def __init__(self) -> None:
        self._last: list[tuple[Any, Any]] = []
        self._hits: list[Any] = []
        self._images = 0

    def keep(self, labels: list[Any], scores: list[Any]) -> None:
        """The labels and scores (N, classes) of a step, one of each for every device."""
        self._last = list(zip(labels, scores, strict=True))

    def count(self) -> None:
        """Count the step that was kept last."""
        for label, score in self._last:
            self._hits.append((score.argmax(axis=1) == label.astype("float32")).sum())
            self._images += len(label)
        self._last = []

    def read(self) -> tuple[int, int]:
        """Correct guesses and images since the last call; waits for the steps that were counted."""
        found = sum(int(one.asscalar()) for one in self._hits), self._images
        self._hits, self._images = [], 0
        return found
