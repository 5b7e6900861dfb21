"""results.csv, results.parquet and upstream's CSV, from scaling rows."""

import csv
import io
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import error_line
from bench.notes import Note
from bench.settings.point_names import format_value
from bench.trial import Trial
from im2rec_tools.terminal import printable
from plots.figures.model import joined, scalable
from plots.tables.scaling import cost_columns, cost_values, varying_columns
from results.cost.cost import NO_COSTS, Costs
from results.errors import StoreError
from results.explain.verdict import SHARES
from results.exports.point import point_labels
from results.record import kept_by_items
from results.scaling import ScalingRow
from results.store import atomic_file

if TYPE_CHECKING:
    from pandas import DataFrame

_FORMULA = re.compile(r"[\s\ufeff\u200b]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|nan)", re.IGNORECASE
)
_HEADER = ("num_gpus", "img_processed_per_sec")
COLUMNS = (
    *("network", "mode", "kvstore", "dtype", "devices", "hosts", "devices_per_host"),
    *("batch_per_device", "worker_batch", "global_batch", "images_per_second", "low", "high"),
    *("speedup_device", "efficiency_device", "speedup_host", "efficiency_host"),
    *("repeats", "windows", "emulated", "status", "message"),
    # Readers use the following columns by name.
    *("engine", "num_layers", "image_shape", "data_nthreads", "gc_type", "env", "servers"),
    *("efficiency_device_low", "efficiency_device_high"),
    *("efficiency_host_low", "efficiency_host_high"),
    *("speedup_worker", "efficiency_worker", "efficiency_worker_low", "efficiency_worker_high"),
    *("baseline", "speedup_baseline", "efficiency_baseline"),
    *("efficiency_baseline_low", "efficiency_baseline_high"),
    *("accuracy", "elapsed_seconds", "peak_memory_bytes", "commit", "standing"),
    *("bytes_per_second", "notes", "cold", "quality", "quality_reasons", "verdict"),
    *(f"share_{name}" for name in SHARES),
)
# At the end, and only if some point has a value.
RARE_COLUMNS = (
    *("peak_device_memory_bytes", "seconds_to_accuracy", "seconds_to_accuracy_low"),
    *("seconds_to_accuracy_high", "epochs_to_accuracy", "reached_accuracy", "trained_to_accuracy"),
    *("gpu_utilization", "gpu_temperature", "gpu_clock"),
)
# Whole numbers with gaps, which pandas would print with decimals.
_WHOLE = (
    *("num_layers", "peak_memory_bytes", "peak_device_memory_bytes"),
    *("reached_accuracy", "trained_to_accuracy"),
)


def cell(value: object) -> object:
    """Return the value; text that looks like a formula gets an apostrophe."""
    if not isinstance(value, str):
        return value
    # Escape what UTF-8 cannot hold, and line ends, which would begin a new row.
    text = printable(value.encode(errors="backslashreplace").decode())
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return the rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(cell, row) for row in rows])
    return text.getvalue()


def upstream_tables(rows: Sequence[ScalingRow]) -> dict[str, str]:
    """Return upstream's CSV by file: 'alexnet.csv', or 'alexnet-dist_sync.csv'.

    The store is in the name if stores overlap. A point without a result has no row; upstream wrote
    0.0.
    """
    tables = {}
    for line in joined(scalable(rows), {}):
        found = [(r.trial.layout.devices, r.rate.images_per_second) for r in line.rows if r.rate]
        kept = "".join(one if one.isalnum() or one in "-_+." else " " for one in line.end)
        tables[f"{'-'.join(kept.split())}.csv"] = csv_text([_HEADER, *found])
    return tables


def _settings(trial: Trial) -> dict[str, object]:
    return {
        **point_labels(trial),
        "devices_per_host": min(trial.layout.devices, trial.layout.devices_per_host),
        "worker_batch": trial.worker_batch,
        "engine": trial.engine,
        "num_layers": trial.model.num_layers,
        "image_shape": ",".join(map(str, trial.model.image_shape)),
        "data_nthreads": trial.data.nthreads,
        "gc_type": trial.training.gc_type,
        "env": shlex.join(trial.layout.env),
        "servers": trial.servers,
        "cold": trial.mxnet.cold,
    }


def _rates(row: ScalingRow) -> dict[str, object]:
    rate, moves = row.rate, row.trial.mode == "bandwidth"
    shown = None if moves else rate
    return {
        "images_per_second": shown and shown.images_per_second,
        "low": shown and shown.low,
        "high": shown and shown.high,
        "bytes_per_second": rate.images_per_second if rate and moves else None,
        "repeats": shown.repeats if shown else 0,
        "windows": shown.windows if shown else 0,
    }


def _cells(row: ScalingRow, commit: str) -> dict[str, object]:
    return {
        **_settings(row.trial),
        **_rates(row),
        **row.ratios,
        "emulated": row.emulated,
        "status": row.status,
        "message": row.note_text,
        "baseline": str(row.baseline.baseline) if row.baseline else None,
        "accuracy": row.accuracy,
        "elapsed_seconds": row.elapsed_seconds,
        "peak_memory_bytes": row.peak_memory_bytes,
        "peak_device_memory_bytes": row.peak_device_memory_bytes,
        **_times(row),
        "gpu_utilization": row.gpu_utilization,
        "gpu_temperature": row.gpu_temperature,
        "gpu_clock": row.gpu_clock,
        "commit": commit,
        "standing": row.standing,
        "notes": _kinds(row.all_notes),
        "quality": row.quality and str(row.quality),
        "quality_reasons": _kinds(row.quality_notes),
        "verdict": row.verdict and str(row.verdict.cause),
        **{f"share_{name}": share for name, share in _shares(row).items()},
    }


def _shares(row: ScalingRow) -> dict[str, float]:
    return row.verdict.shares if row.verdict else {}


def _times(row: ScalingRow) -> dict[str, object]:
    found = row.time_to_accuracy
    low, high = (found and found.interval) or (None, None)
    return {
        "seconds_to_accuracy": found and found.seconds,
        "seconds_to_accuracy_low": low,
        "seconds_to_accuracy_high": high,
        "epochs_to_accuracy": found and found.epochs,
        "reached_accuracy": len(found.reached) if found else None,
        "trained_to_accuracy": found.repeats if found else None,
    }


def _kinds(notes: Iterable[Note]) -> str:
    return "|".join(dict.fromkeys(str(note.kind) for note in notes))


def _table(
    rows: Sequence[ScalingRow], costs: Costs, commit: str
) -> tuple[list[str], list[dict[str, object]]]:
    """Return the names of the columns, and each row's values by name."""
    more = cost_columns(costs)
    fields = [name for name in varying_columns(rows) if name not in COLUMNS]
    found = [
        {name: format_value(row.trial.value(name)) for name in fields}
        | _cells(row, commit)
        | dict(zip(more, cost_values(row, costs), strict=True))
        for row in rows
    ]
    own = [name for name in RARE_COLUMNS if any(one[name] is not None for one in found)]
    return [*COLUMNS, *fields, *own, *more], found


def _column(values: list[object]) -> list[object]:
    """Return a column as pandas writes it: mixed numbers as floats, NaN as empty."""
    fractional = any(isinstance(value, float) for value in values)
    kept = [float(value) if fractional and type(value) is int else value for value in values]
    return [None if value != value else value for value in kept]  # noqa: PLR0124 - NaN


@kept_by_items
def table_csv(rows: Sequence[ScalingRow], costs: Costs = NO_COSTS, commit: str = "") -> str:
    """Return results.csv, equal to `results_frame` but without loading pandas (0.3 s)."""
    columns, found = _table(rows, costs, commit)
    values = [_column([one.get(name) for one in found]) for name in columns]
    return csv_text([columns, *zip(*values, strict=True)])


def results_frame(
    rows: Sequence[ScalingRow], costs: Costs = NO_COSTS, commit: str = ""
) -> "DataFrame":
    """Return a data frame: throughput in images/s, efficiencies as fractions.

    `COLUMNS` come first, then fields that vary, and last columns of `costs` if a row has one.
    `commit` is the checkout's.
    """
    from pandas import DataFrame  # noqa: PLC0415 - table_csv needs none

    columns, found = _table(rows, costs, commit)
    kept = [{name: cell(value) for name, value in one.items()} for one in found]
    whole = [name for name in _WHOLE if name in columns]
    return DataFrame(kept, columns=columns).astype(dict.fromkeys(whole, "Int64"))


def save_parquet(rows: Sequence[ScalingRow], costs: Costs, commit: str, path: Path) -> None:
    """Write the data frame as Parquet, atomically; StoreError if that fails."""
    try:
        with atomic_file(path) as file:
            results_frame(rows, costs, commit).to_parquet(file, engine="pyarrow", index=False)
    except ImportError as error:
        problem = "--parquet needs pyarrow, which is not installed"
        fix = "Install it with 'make exports'"
        raise StoreError(error_line(path, problem=problem, fix=fix)) from error
