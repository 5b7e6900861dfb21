"""What the times in a log say against the speeds in it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from results.imports.log import Log, Stretch
from results.imports.windows import Workers
from results.record import Rank

# Times of lines are whole seconds in some logs, and an epoch's time holds what is no training.
_APART, _EPOCH_APART = 1.2, 2.0
_LEAST = 3


def clock(found: Workers, ranks: Sequence[Rank], logs: Mapping[str, Log]) -> str:
    """Whether the speeds can be true, in words.

    MXNet's Speedometer reads its clock when it is called: where nothing makes the script wait for
    the devices, as where it has no metric, it tells how fast batches are handed out.
    """
    lines = list(_by_lines(found, ranks))
    if len(lines) >= _LEAST:
        times = median(lines)
        if 1 / _APART < times < _APART:
            return "the times on its lines bear its speeds out"
        return (
            f"doubtful: by the times on its lines, training took {times:.2g} times as long as its "
            f"speeds say"
        )
    epochs = list(_by_epochs(found, ranks, logs))
    if epochs and median(epochs) > _EPOCH_APART:
        return (
            f"doubtful: by its 'Time cost' lines, epochs took {median(epochs):.2g} times as long "
            f"as its speeds say"
        )
    return "its speeds are taken as they stand, the clock that they come from is not checked"


def _by_lines(found: Workers, ranks: Sequence[Rank]) -> Iterator[float]:
    """The seconds a step between two lines over those that the second line tells."""
    for part, rank in zip(found.values(), ranks, strict=True):
        for (before, after), spent in zip(pairwise(part), rank.seconds[1:], strict=True):
            if before.at is None or after.at is None or before.place[:-1] != after.place[:-1]:
                continue
            if after.steps:
                steps = after.place[-1] - before.place[-1]
                yield (after.at - before.at) / steps / (spent / after.steps)


def _by_epochs(found: Workers, ranks: Sequence[Rank], logs: Mapping[str, Log]) -> Iterator[float]:
    """An epoch's seconds over those of its batches, with a stretch more that no line tells of."""
    costs: dict[int, list[float]] = {}
    for log in logs.values():
        for epoch, seconds in log.epochs:
            costs.setdefault(epoch, []).append(seconds)
    for part, rank in zip(found.values(), ranks, strict=True):
        told: dict[int, list[tuple[Stretch, float]]] = {}
        for one, seconds in zip(part, rank.seconds, strict=True):
            told.setdefault(one.place[0], []).append((one, seconds))
        for epoch, stretches in told.items():
            if epoch in costs:
                yield median(costs[epoch]) / _whole(stretches)


def _whole(stretches: Sequence[tuple[Stretch, float]]) -> float:
    """The seconds of an epoch, at the speeds of its stretches."""
    steps = sum(one.steps for one, _ in stretches)
    last, _ = stretches[-1]
    return sum(seconds for _, seconds in stretches) / steps * (last.place[-1] + last.steps)
