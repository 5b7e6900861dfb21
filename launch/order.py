"""The order in which the points of a sweep are run. Pure."""

import hashlib
from collections.abc import Sequence

from bench.trial import Trial
from results.record import Identity

Point = tuple[Trial, Identity]


def shuffled(points: Sequence[Point], seed: str) -> list[Point]:
    """The points in an order of chance within each repeat, so that none is always measured first.

    A point's place follows from the seed alone: what is left of a sweep keeps its order.
    """

    def place(point: Point) -> tuple[int, str]:
        name = point[1]
        text = f"{seed} {name.repeat} {name.key}"
        return name.repeat, hashlib.sha256(text.encode()).hexdigest()

    return sorted(points, key=place)
