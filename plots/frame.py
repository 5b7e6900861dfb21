"""Scaling rows as the data frame behind results.csv; one row a point."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from plots.costs import columns, values
from results.cost import NO_COSTS, Costs
from results.errors import StoreError
from results.rates import Ratio
from results.scaling import ScalingRow
from results.speedup import Against

COLUMNS = (
    *("network", "mode", "kvstore", "dtype", "devices", "hosts", "devices_per_host"),
    *("batch_per_device", "worker_batch", "global_batch", "images_per_second", "low", "high"),
    *("speedup_device", "efficiency_device", "speedup_host", "efficiency_host"),
    *("repeats", "windows", "emulated", "status", "message"),
)


def _value(ratio: Ratio | None) -> float | None:
    return None if ratio is None else ratio.value


def _ratios(name: str, against: Against | None) -> dict[str, float | None]:
    return {
        f"speedup_{name}": _value(against.speedup if against else None),
        f"efficiency_{name}": _value(against.efficiency if against else None),
    }


def _cells(row: ScalingRow) -> dict[str, object]:
    trial, rate = row.trial, row.rate if row.trial.mode != "bandwidth" else None
    return {
        "network": trial.label,
        "mode": trial.mode,
        "kvstore": trial.kvstore,
        "dtype": trial.dtype,
        "devices": trial.devices,
        "hosts": trial.hosts,
        "devices_per_host": min(trial.devices, trial.devices_per_host),
        "batch_per_device": trial.device_batch,
        "worker_batch": trial.worker_batch,
        "global_batch": trial.global_batch,
        "images_per_second": rate and rate.images_per_second,
        "low": rate and rate.low,
        "high": rate and rate.high,
        **_ratios("device", row.device),
        **_ratios("host", row.host),
        "repeats": rate.repeats if rate else 0,
        "windows": rate.windows if rate else 0,
        "emulated": row.emulated,
        "status": row.status,
        "message": row.remark,
    }


def frame(rows: Sequence[ScalingRow], costs: Costs = NO_COSTS) -> pd.DataFrame:
    """A data frame with `COLUMNS`; rates in images per second, efficiencies as fractions.

    After them stand columns of `costs`, where some row has one.
    """
    more = columns(costs)
    found = [_cells(row) | dict(zip(more, values(row, costs), strict=True)) for row in rows]
    kept = [{name: _kept(value) for name, value in one.items()} for one in found]
    return pd.DataFrame(kept, columns=[*COLUMNS, *more])


def _kept(value: object) -> object:
    """The value; of a text, what UTF-8 cannot hold is escaped, as in every file of a report."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def parquet(rows: Sequence[ScalingRow], costs: Costs, path: Path) -> None:
    """Writes the data frame as Parquet, whole; StoreError where that cannot be."""
    sibling = path.with_name(f".{path.name}.new")
    try:
        frame(rows, costs).to_parquet(sibling, engine="pyarrow", index=False)
        sibling.replace(path)
    except ImportError as error:
        raise StoreError(
            f"{path}: --parquet needs pyarrow, which is not installed; 'make exports' adds it"
        ) from error
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        sibling.unlink(missing_ok=True)
