"""Series: what a repeat did window by window, as logs and curves need it."""

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from results.measured import Measured
from results.record import Identity, Record
from results.store import read


@dataclass(frozen=True, kw_only=True)
class Series:
    """A good repeat, warm-up included.

    ends    when each window of the whole job ended, by the clocks of its hosts (seconds since 1970)
    losses  (window, loss) of its first rank, without those that are no number
    """

    ends: tuple[float, ...]
    losses: tuple[tuple[int, float], ...]


def series(folder: Path) -> dict[Identity, Series]:
    """The series of every good repeat in a run folder."""
    return {record.identity: _of(record) for record in read(folder) if record.status == "ok"}


def began(one: Measured, otherwise: float) -> float:
    """When the repeat was started, in seconds since 1970, where its record says it."""
    try:
        return datetime.fromisoformat(one.started).timestamp()
    except ValueError:
        return otherwise


def _of(record: Record) -> Series:
    count = min(len(rank.ends) for rank in record.ranks)
    first = min(record.ranks, key=lambda rank: rank.rank)
    return Series(
        ends=tuple(max(rank.ends[index] for rank in record.ranks) for index in range(count)),
        losses=tuple((n, loss) for n, loss in enumerate(first.losses) if math.isfinite(loss)),
    )
