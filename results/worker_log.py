"""The log of a worker, put together from the lines of its events; the ranks of a record."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.event_decoder import decoded
from bench.events import Event
from results.record import Rank

Values = dict[str, Any]


# What of a window and of an epoch a record is made from, all of it numbers.
_WINDOW = ("seconds", "end", "cpu_seconds", "images", "loss", "own_seconds")
_EPOCH = ("correct", "total")


@dataclass(kw_only=True)
class WorkerLog:
    """What one worker has said so far; `rank` is None until it has met the others."""

    rank: int | None = None
    facts: Values = field(default_factory=dict)
    windows: list[Values] = field(default_factory=list)
    epochs: list[Values] = field(default_factory=list)
    done: Values | None = None


def heard(lines: Iterable[str]) -> WorkerLog:
    """What these lines say; those that are torn, wrong or somebody else's say nothing."""
    found = WorkerLog()
    for event in _events(lines):
        if event.kind == "ready":
            found.rank, found.facts = event.rank, event.values
        elif event.kind == "window":
            found.windows.append(_only(_WINDOW, event.values))
        elif event.kind == "epoch":
            found.epochs.append(_only(_EPOCH, event.values))
        elif event.kind == "done":
            found.done = event.values
    return found


def _only(names: Sequence[str], values: Values) -> Values:
    """These of the values."""
    return {name: values[name] for name in names if name in values}


def _events(lines: Iterable[str]) -> Iterator[Event]:
    for line in lines:
        with contextlib.suppress(ValueError):  # a wrong one has failed its job
            event = decoded(line)
            if event is not None:
                yield event


def rank_of(one: WorkerLog, host: str, process: str) -> Rank:
    """The rank of a record that a worker's events make; it has met the others."""
    assert one.rank is not None
    windows = one.windows
    return Rank(
        rank=one.rank,
        host=host,
        process=process,
        seconds=tuple(window["seconds"] for window in windows),
        ends=tuple(window["end"] for window in windows),
        cpu_seconds=tuple(window.get("cpu_seconds", 0.0) for window in windows),
        images=tuple(window["images"] for window in windows),
        losses=tuple(window.get("loss", 0.0) for window in windows),
        own_seconds=tuple(w["own_seconds"] for w in windows if "own_seconds" in w),
        facts=one.facts | (one.done or {}),
    )


def accuracy_of(epochs: Sequence[Sequence[Mapping[str, Any]]]) -> float | None:
    """Of the last validation, over all ranks' shares; None where a rank has none."""
    last = [rank[-1] for rank in epochs if rank]
    if not last or len(last) < len(epochs):
        return None
    total = sum(int(one["total"]) for one in last)
    return sum(int(one["correct"]) for one in last) / total if total else None
