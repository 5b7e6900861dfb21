"""Points and window series with names and figures as other tools expect them."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from bench.notes import NoteKind
from bench.trial import Trial
from results.errors import StoreError
from results.rates import ASSUMED_SCATTER
from results.record import Identity, Record
from results.repeat import RepeatSummary
from results.run import Run
from results.scaling import ScalingRow
from results.store import record_lines, record_log
from results.windows import job_windows

# What XML 1.0 has no way to say, and what a terminal takes for more than text.
_UNSAYABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd"
    "\U00010000-\U0010ffff]"
)
_NO_NAME = re.compile(r"[^\w.+-]+")
_TRAINING = ("synthetic", "real")


@dataclass(frozen=True, kw_only=True)
class ExportPoint:
    """A point of a run.

    name      that no other point of the run has
    standing  'measured', or what a reader has to know before the number: 'rehearsal, unstable'
    labels    what tells the point from others, by the names of results.csv
    figures   its numbers by the names of results.csv, all finite; bytes_per_second in place of
              images_per_second where a network was measured
    """

    name: str
    standing: str
    labels: dict[str, str]
    figures: dict[str, float]
    row: ScalingRow


def export_points(run: Run) -> list[ExportPoint]:
    """The points of a run, in its order."""
    count = Counter(row.trial.name for row in run.rows)
    return [
        ExportPoint(
            name=row.trial.name
            if count[row.trial.name] == 1
            else f"{row.trial.name} {row.trial.key}",
            standing=standing(row),
            labels={name: str(value) for name, value in point_labels(row.trial).items()},
            figures={n: one for n, one in _figures(row) if one is not None and math.isfinite(one)},
            row=row,
        )
        for row in run.rows
    ]


def training_points(run: Run) -> list[ExportPoint]:
    """The points of a run that trained and have a number."""
    return [
        point
        for point in export_points(run)
        if point.row.rate is not None and point.row.trial.mode in _TRAINING
    ]


def standing(row: ScalingRow) -> str:
    """'measured', or why it is not: rehearsal, imported, doubtful, emulated, unstable."""
    words = {
        row.standing: row.standing != "measured",
        "doubtful": NoteKind.LOG_DOUBTFUL in row.headline_kinds,
        "emulated": row.emulated,
        "unstable": row.status == "unstable",
    }
    return ", ".join(word for word, applies in words.items() if applies) or "measured"


def legible(text: str) -> str:
    """The text with a mark for each control character and what XML cannot say."""
    return _UNSAYABLE.sub("\ufffd", text)


def file_name(text: str) -> str:
    """The text as the name of a file."""
    return _NO_NAME.sub("_", text).strip("._") or "_"


def point_labels(trial: Trial) -> dict[str, str | int]:
    """What tells a point from others, by the names of results.csv."""
    return {
        "network": trial.network_name,
        "mode": trial.mode,
        "kvstore": trial.store_name,
        "dtype": trial.training.dtype,
        "devices": trial.layout.devices,
        "hosts": trial.hosts,
        "batch_per_device": trial.device_batch,
        "global_batch": trial.global_batch,
    }


def _figures(row: ScalingRow) -> Iterator[tuple[str, float | None]]:
    yield "elapsed_seconds", row.elapsed_seconds
    yield "peak_memory_bytes", row.peak_memory_bytes
    if row.rate is None:
        return
    unit = "bytes" if row.trial.mode == "bandwidth" else "images"
    yield f"{unit}_per_second", row.rate.images_per_second
    yield from (("low", row.rate.low), ("high", row.rate.high))
    yield from row.ratios.items()
    yield from (("repeats", row.rate.repeats), ("windows", row.rate.windows))
    yield "assumed_scatter", ASSUMED_SCATTER if row.rate.assumed else None
    yield "validation_accuracy", row.accuracy


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
    return {record.identity: _series_of(record) for record in read if record.status == "ok"}


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


def _series_of(record: Record) -> RepeatSeries:
    windows = job_windows(record).each
    ends = [max(rank.ends[index] for rank in record.ranks) for index in range(len(windows))]
    if not all(0 <= end < _MOST_SECONDS for end in ends):  # no clock, or somebody's edit
        ends = list(accumulate(seconds for seconds, _ in windows))
    first = min(record.ranks, key=lambda rank: rank.rank)
    return RepeatSeries(
        ends=tuple(ends),
        losses=tuple((n, loss) for n, loss in enumerate(first.losses) if math.isfinite(loss)),
    )
