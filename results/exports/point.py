"""Points and window series, with names and values for other tools."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from bench.errors import error_line
from bench.notes import CONTRADICTED
from bench.settings.point_names import format_value, varying
from bench.trial import Trial
from results.errors import StoreError
from results.rates import ASSUMED_SCATTER, job_windows
from results.record import Identity, Record
from results.repeat import RepeatSummary
from results.run import Run
from results.scaling import ScalingRow
from results.store import record_lines, record_log

# Characters that XML 1.0 cannot hold, and terminal control characters.
_UNPRINTABLE = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u200d\u2010-\u2027\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd"
    "\U00010000-\U0010ffff]"
)
_NO_NAME = re.compile(r"[^\w.+-]+")
TRAINING = ("synthetic", "real")


@dataclass(frozen=True, kw_only=True)
class ExportPoint:
    """A point of a run.

    name      unique in the run
    standing  'measured', or the caveats of the value: 'rehearsal, unstable'
    labels    distinguishing settings and those that vary in the run, by column of results.csv
    figures   values by column of results.csv, all finite; bytes_per_second replaces
              images_per_second in a bandwidth measurement
    """

    name: str
    standing: str
    labels: dict[str, str]
    figures: dict[str, float]
    row: ScalingRow


def export_points(run: Run) -> list[ExportPoint]:
    """Return the points of a run, in its order."""
    count = Counter(row.trial.name for row in run.rows)
    fields = varying([row.trial for row in run.rows])
    return [
        ExportPoint(
            name=row.trial.name
            if count[row.trial.name] == 1
            else f"{row.trial.name} {row.trial.key}",
            standing=standing(row),
            labels={name: str(value) for name, value in _labels(row.trial, fields).items()},
            figures={n: one for n, one in _figures(row) if one is not None and math.isfinite(one)},
            row=row,
        )
        for row in run.rows
    ]


def _labels(trial: Trial, fields: Sequence[str]) -> dict[str, str | int]:
    return {name: format_value(trial.value(name)) for name in fields} | point_labels(trial)


def training_points(run: Run) -> list[ExportPoint]:
    """Return the training points of a run that have a result."""
    return [
        point
        for point in export_points(run)
        if point.row.rate is not None and point.row.trial.mode in TRAINING
    ]


def standing(row: ScalingRow) -> str:
    """Return 'measured' or caveats: rehearsal, imported, reported, `doubtful`, ..."""
    words = {
        row.standing: row.standing != "measured",
        "doubtful": not CONTRADICTED.isdisjoint(row.headline_kinds),
        "emulated": row.emulated,
        "unstable": row.status == "unstable",
    }
    return ", ".join(word for word, applies in words.items() if applies) or "measured"


def legible(text: str) -> str:
    """Replace control characters and characters that XML cannot hold by a mark."""
    return _UNPRINTABLE.sub("\ufffd", text)


def file_name(text: str) -> str:
    """Return the text as a file name."""
    return _NO_NAME.sub("_", text).strip("._") or "_"


def point_labels(trial: Trial) -> dict[str, str | int]:
    """Return the distinguishing settings of a point, by column of results.csv."""
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
    yield "peak_device_memory_bytes", row.peak_device_memory_bytes
    yield "gpu_utilization", row.gpu_utilization
    yield "gpu_temperature", row.gpu_temperature
    yield "gpu_clock", row.gpu_clock
    if found := row.time_to_accuracy:
        yield from (("seconds_to_accuracy", found.seconds), ("epochs_to_accuracy", found.epochs))
    if row.rate is None:
        return
    unit = "bytes" if row.trial.mode == "bandwidth" else "images"
    yield f"{unit}_per_second", row.rate.images_per_second
    yield from (("low", row.rate.low), ("high", row.rate.high))
    yield from row.ratios.items()
    yield from (("repeats", row.rate.repeats), ("windows", row.rate.windows))
    yield "assumed_scatter", ASSUMED_SCATTER if row.rate.assumed else None
    yield "validation_accuracy", row.accuracy


# The year 9999, the last that datetime accepts.
_MOST_SECONDS = 253_402_300_800.0


@dataclass(frozen=True, kw_only=True)
class RepeatSeries:
    """Window series of a repeat, warm-up included.

    windows seconds and images of each window of the whole job
    ends    end of each window of the whole job, in seconds since 1970 by the hosts' clocks; from
            0 if they are not recorded
    losses  (window, loss) of the first rank; values that are not finite are omitted
    """

    windows: tuple[tuple[float, int], ...]
    ends: tuple[float, ...]
    losses: tuple[tuple[int, float], ...]


def series(folder: Path) -> dict[Identity, RepeatSeries]:
    """Read the series of a run folder's repeats that trained to their end.

    They are the successful ones, and those that ended without reaching their stop accuracy.
    """
    found: dict[Identity, RepeatSeries] = {}
    for _, one in record_lines(record_log(folder)):
        if isinstance(one, Record):
            found.pop(one.identity, None)  # of an earlier try
            if one.status == "ok" or _trained(one):
                found[one.identity] = _series_of(one)
    return found


def _trained(record: Record) -> bool:
    """Return whether a failed repeat has validations and whole windows."""
    counts = {len(one) for rank in record.ranks for one in (rank.seconds, rank.ends, rank.images)}
    alike = len(counts) == 1 and min(counts) > record.trial.measuring.warmup_windows
    sound = all(value > 0 for rank in record.ranks for value in (*rank.seconds, *rank.images))
    return bool(record.validations) and alike and sound and not record.trial.asynchronous


def repeat_series(known: Mapping[Identity, RepeatSeries], one: RepeatSummary) -> RepeatSeries:
    """Return the series of a repeat; raise StoreError if its record is damaged."""
    if found := known.get(one.identity):
        return found
    where = f"{one.identity.name}, repeat {one.identity.repeat + 1}"
    fix = "Rerun the sweep to measure this point again, or leave it out"
    raise StoreError(error_line(where, problem="the record is damaged", fix=fix))


def start_seconds(one: RepeatSummary, otherwise: float) -> float:
    """Return the repeat's start in seconds since 1970, or `otherwise`."""
    try:
        return datetime.fromisoformat(one.started).timestamp()
    except ValueError:
        return otherwise


def _series_of(record: Record) -> RepeatSeries:
    windows = job_windows(record).each
    ends = [max(rank.ends[index] for rank in record.ranks) for index in range(len(windows))]
    if not all(0 <= end < _MOST_SECONDS for end in ends):  # no clock, or an edited record
        ends = list(accumulate(seconds for seconds, _ in windows))
    first = min(record.ranks, key=lambda rank: rank.rank)
    return RepeatSeries(
        windows=tuple(windows),
        ends=tuple(ends),
        losses=tuple((n, loss) for n, loss in enumerate(first.losses) if math.isfinite(loss)),
    )
