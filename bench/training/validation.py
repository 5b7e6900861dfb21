"""Accuracy, top-k accuracy and loss on validation images."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.data.loader import Buffer
from bench.errors import error_line

# Upstream's metrics add it to each probability.
_EPSILON = 1e-12
_LEAST = 1e-30


class Accuracy:
    """Counter of correctly classified training images since the last read.

    The network's graph computes the hits of each step; only `read` waits for them.
    """

    def __init__(self) -> None:
        self._hits: list[Any] = []
        self._correct, self._images = 0, 0

    def count(self, hits: Sequence[Any]) -> None:
        """Count a step: per device, an array with 1 or 0 for each image."""
        self._hits += hits

    def read(self) -> tuple[int, int]:
        """Return the correct guesses and the images since the last call.

        Waits for the counted steps.
        """
        self.settle()
        found = self._correct, self._images
        self._correct, self._images = 0, 0
        return found

    def settle(self) -> None:
        """Wait for the counted steps, and add them up."""
        arrays = [one.asnumpy() for one in self._hits]
        self._hits = []
        self._correct += int(sum(one.sum() for one in arrays))
        self._images += sum(map(len, arrays))


@dataclass(frozen=True, kw_only=True)
class Score:
    """Correct best guesses, labels in the top k and summed loss of `total` images."""

    total: int = 0
    correct: int = 0
    in_top_k: int = 0
    loss: float = 0.0

    def __add__(self, other: "Score") -> "Score":
        return Score(
            total=self.total + other.total,
            correct=self.correct + other.correct,
            in_top_k=self.in_top_k + other.in_top_k,
            loss=self.loss + other.loss,
        )


def score(scores: Any, labels: Any, k: int) -> Score:
    """Score one batch.

    scores   (N, classes), before or after softmax
    labels   (N,), integers
    k        number of best guesses for the top-k count; 0: none

    The loss is the mean cross-entropy's numerator, in nats, of softmax(scores).
    """
    scores, rows = np.asarray(scores, dtype=np.float64), np.arange(len(labels))
    labels = np.asarray(labels).astype(int)
    if labels.size and not 0 <= labels.min() <= labels.max() < scores.shape[1]:
        raise ValueError(f"label: expected 0 to {scores.shape[1] - 1}, got {labels.max()}")
    if not np.isfinite(scores).all():
        raise FloatingPointError(
            error_line(
                "scores",
                expected="finite numbers",
                got="others",
                problem="training diverged",
                fix="Lower --lr",
            )
        )
    best = np.argsort(-scores, axis=1)[:, : max(1, k)]
    hits = best == labels[:, None]
    logs = scores - scores.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return Score(
        total=len(labels),
        correct=int(hits[:, 0].sum()),
        in_top_k=int(hits.any(axis=1).sum()) if k else 0,
        loss=float(-np.log(np.exp(logs[rows, labels]) + _EPSILON).sum()),
    )


def _are_probabilities(given: Any) -> bool:
    return bool((given >= 0).all() and np.allclose(given.sum(axis=1), 1, atol=1e-3))


def score_outputs(given: Any, labels: Any, k: int) -> Score:
    """Score outputs of a network that may end with a softmax (rows that add up to 1)."""
    if _are_probabilities(given):
        given = np.log(np.maximum(given, _LEAST))
    return score(given, labels, k)


def probabilities(given: Any) -> Any:
    """Return a network's outputs (N, classes) as probabilities.

    The network may end with a softmax.
    """
    if _are_probabilities(given):
        return given
    powers = np.exp(given - given.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def score_batches(
    batches: Iterable[tuple[Buffer, int]],
    scores_of: Callable[[Buffer], Any],
    k: int,
    report: Callable[[int], None],
) -> Score:
    """Score batches, each with its number of valid images.

    Calls `report` with the number of images done so far.
    """
    sum_ = Score()
    for one, kept in batches:
        sum_ += score(scores_of(one)[:kept], one.labels[:kept], k)
        report(sum_.total)
    return sum_


def score_text(sum_: Score, *, k: int, losses: Sequence[str]) -> str:
    """Format a score: 'validation accuracy 0.512, top-5 0.913, ce 1.402'.

    `losses` are names of the one loss, which upstream prints under two.
    """
    if not sum_.total:
        return f"validation accuracy {math.nan}"
    parts = [f"validation accuracy {sum_.correct / sum_.total:.3f}"]
    parts += [f"top-{k} {sum_.in_top_k / sum_.total:.3f}"] if k else []
    parts += [f"{loss} {sum_.loss / sum_.total:.4f}" for loss in losses]
    return ", ".join(parts)
