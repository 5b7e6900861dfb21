"""A run folder as reports read it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.errors import StoreError
from results.record import Record
from results.scaling import ScalingRow, scaling
from results.store import latest, read, read_json


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder as a report needs it; `missing` names points that are not measured yet."""

    folder: Path
    rows: list[ScalingRow]
    environment: dict[str, Any]
    missing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.folder.resolve().name

    @property
    def complete(self) -> bool:
        """Whether every point has a number."""
        return not self.missing and all(row.status == "ok" for row in self.rows)


def load(folder: Path) -> Run:
    """Reads a run folder; of its records those of the sweep's trials count, in the sweep's order.

    Raises StoreError where there is no run or it has no record yet.
    """
    records = latest(read(folder))
    environment = read_json(folder, "environment.json")
    asked: dict[str, str] = environment.get("points", {})
    order = {key: place for place, key in enumerate(asked)}
    if order:
        records = [record for record in records if record.identity.key in order]
        records.sort(key=lambda record: order[record.identity.key])
    # A network's points stand together, whatever store they used.
    groups = list(dict.fromkeys((record.trial.mode, record.trial.label) for record in records))
    records.sort(key=lambda record: groups.index((record.trial.mode, record.trial.label)))
    if not records:
        raise StoreError(f"{folder}: no point has been measured yet; 'fab bench.sweep' does that")
    return Run(
        folder=folder,
        rows=scaling(records),
        environment=environment,
        missing=tuple(_missing(records, asked, environment.get("repeats", 1))),
    )


def _missing(records: list[Record], asked: dict[str, str], repeats: int) -> Iterator[str]:
    """What the sweep asks for and no record is of, by name."""
    for key, name in asked.items():
        count = sum(record.identity.key == key for record in records)
        if count < repeats:
            yield name if repeats == 1 else f"{name} ({count} of {repeats} repeats)"
