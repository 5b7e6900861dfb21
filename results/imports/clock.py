"""The times in a log, checked against the speeds in it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from bench.notes import Note, NoteKind
from results.imports.log import Log, Stretch
from results.imports.windows import Workers
from results.record import Rank

# Times of lines are whole seconds in some logs, and an epoch's time holds what is no training.
_APART, _EPOCH_APART = 1.2, 2.0
_LEAST = 3


def clock(found: Workers, ranks: Sequence[Rank], logs: Mapping[str, Log]) -> Note:
    """Whether the speeds can be true.

    MXNet's Speedometer reads its clock when it is called: where nothing makes the script wait for
    the devices, as where it has no metric, it tells how fast batches are handed out.
    """
    lines = list(_by_lines(found, ranks))
    if len(lines) >= _LEAST:
        times = median(lines)
        if 1 / _APART < times < _APART:
            return Note(NoteKind.LOG_TIMES_AGREE)
        return _doubtful("lines", times)
    epochs = list(_by_epochs(found, ranks, logs))
    if epochs and median(epochs) > _EPOCH_APART:
        return _doubtful("epochs", median(epochs))
    return Note(NoteKind.LOG_TIMES_UNKNOWN)


def images_per_step(found: Workers) -> float:
    """Of what a speed counts, by the times on the lines; 0 if they do not say."""
    steps = [time * after.rate for part in found.values() for after, time in _step_times(part)]
    return median(steps) if len(steps) >= _LEAST else 0.0


def _step_times(part: Sequence[Stretch]) -> Iterator[tuple[Stretch, float]]:
    """Each stretch with the seconds per step since the line before it, if both have a time."""
    for before, after in pairwise(part):
        if before.at is None or after.at is None or before.place[:-1] != after.place[:-1]:
            continue
        yield after, (after.at - before.at) / (after.place[-1] - before.place[-1])


def near(one: float, other: float) -> bool:
    """Whether the clock cannot tell them apart."""
    return one > 0 and other > 0 and 1 / _APART < one / other < _APART


def _doubtful(what: str, factor: float) -> Note:
    return Note(NoteKind.LOG_DOUBTFUL, {"clock": what, "factor": factor})


def _by_lines(found: Workers, ranks: Sequence[Rank]) -> Iterator[float]:
    """The seconds a step between two lines over those that the second line tells."""
    for part, rank in zip(found.values(), ranks, strict=True):
        spent = {one.place: seconds for one, seconds in zip(part, rank.seconds, strict=True)}
        for after, time in _step_times(part):
            if after.steps:
                yield time / (spent[after.place] / after.steps)


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
        for epoch in told.keys() & costs.keys():
            stretches, last = told[epoch], told[epoch][-1][0]
            each = sum(time for _, time in stretches) / sum(one.steps for one, _ in stretches)
            yield median(costs[epoch]) / (each * (last.place[-1] + last.steps))
