"""Series: what a repeat did window by window, as logs and curves need it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from results.errors import StoreError
from results.record import Identity, Record
from results.repeat import RepeatSummary
from results.store import record_lines, record_log
from results.windows import job_windows

# The year 9999: later is no time, and what is not finite is none either.
_MOST_SECONDS = 253_402_300_800.0


@dataclass(frozen=True, kw_only=True)
class RepeatSeries:
    """A good repeat, warm-up included.

    ends    when each window of the whole job ended, in seconds since 1970 by the clocks of its
            hosts; from 0 on where they are not told
    losses  (window, loss) of its first rank, without those that are no number
    """

    ends: tuple[float, ...]
    losses: tuple[tuple[int, float], ...]


def series(folder: Path) -> dict[Identity, RepeatSeries]:
    """The series of every good repeat in a run folder."""
    read = (one for _, one in record_lines(record_log(folder)) if isinstance(one, Record))
    return {record.identity: _of(record) for record in read if record.status == "ok"}


def repeat_series(known: Mapping[Identity, RepeatSeries], one: RepeatSummary) -> RepeatSeries:
    """The series of a repeat; StoreError where its record has figures but none of its series."""
    if found := known.get(one.identity):
        return found
    said = f"{one.identity.name}, repeat {one.identity.repeat + 1}"
    raise StoreError(f"{said}: its record is damaged; measure this point again, or leave it out")


def start_seconds(one: RepeatSummary, otherwise: float) -> float:
    """When the repeat was started, in seconds since 1970, where its record says it."""
    try:
        return datetime.fromisoformat(one.started).timestamp()
    except ValueError:
        return otherwise


def _of(record: Record) -> RepeatSeries:
    windows = job_windows(record).each
    ends = [max(rank.ends[index] for rank in record.ranks) for index in range(len(windows))]
    if not all(0 <= end < _MOST_SECONDS for end in ends):  # no clock, or somebody's edit
        ends = list(accumulate(seconds for seconds, _ in windows))
    first = min(record.ranks, key=lambda rank: rank.rank)
    return RepeatSeries(
        ends=tuple(ends),
        losses=tuple((n, loss) for n, loss in enumerate(first.losses) if math.isfinite(loss)),
    )
