"""A run folder as reports read it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.errors import StoreError
from results.scaling import ScalingRow, scaling
from results.store import latest, read, read_json


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder as a report needs it."""

    folder: Path
    rows: list[ScalingRow]
    environment: dict[str, Any]

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.folder.resolve().name

    @property
    def complete(self) -> bool:
        """Whether every point has a number."""
        return all(row.status == "ok" for row in self.rows)


def load(folder: Path) -> Run:
    """Reads a run folder; of its records those of the sweep's trials count, in the sweep's order.

    Raises StoreError where there is no run or it has no record yet.
    """
    records = latest(read(folder))
    environment = read_json(folder, "environment.json")
    order = {key: place for place, key in enumerate(environment.get("trials", []))}
    if order:
        records = [record for record in records if record.identity.key in order]
        records.sort(key=lambda record: order[record.identity.key])
    # A network's points stand together, whatever store they used.
    groups = list(dict.fromkeys((record.trial.mode, record.trial.label) for record in records))
    records.sort(key=lambda record: groups.index((record.trial.mode, record.trial.label)))
    if not records:
        raise StoreError(f"{folder}: no point has been measured yet; 'fab bench.sweep' does that")
    return Run(folder=folder, rows=scaling(records), environment=environment)
