"""A run folder as reports read it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.errors import StoreError
from results.measured import Measured, measured
from results.record import Identity
from results.scaling import ScalingRow, rows_of
from results.store import read, read_json


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
    def rehearsal(self) -> bool:
        """Whether any point was run by the fake engine."""
        return any(row.trial.engine == "fake" for row in self.rows)

    @property
    def complete(self) -> bool:
        """Whether every point has a number."""
        return not self.missing and all(row.rate for row in self.rows)


def load(folder: Path) -> Run:
    """Reads a run folder; records count that are of what was last asked for, in its order.

    Raises StoreError where there is no run or it has no record yet.
    """
    return run_of(folder, (measured(record) for record in read(folder)))


def run_of(folder: Path, found: Iterable[Measured]) -> Run:
    """The run of what these records say, oldest first; see `load`."""
    newest = {one.identity: one for one in found}
    asked = wanted(folder) or list(newest)
    records = [newest[name] for name in asked if name in newest]
    # A network's points stand together, whatever store they used.
    groups = list(dict.fromkeys((record.trial.mode, record.trial.label) for record in records))
    records.sort(key=lambda record: groups.index((record.trial.mode, record.trial.label)))
    if not records:
        raise StoreError(f"{folder}: no point has been measured yet; 'fab bench.sweep' does that")
    return Run(
        folder=folder,
        rows=rows_of(records),
        environment=read_json(folder, "environment.json", {}),
        missing=tuple(_named(name, asked) for name in asked if name not in newest),
    )


def wanted(folder: Path) -> list[Identity]:
    """What the last sweep in this folder asked for; empty where it did not leave that."""
    try:
        asked: list[dict[str, Any]] = read_json(folder, "asked.json", [])
        return [Identity(**one | {"hosts": tuple(one["hosts"])}) for one in asked]
    except (TypeError, KeyError) as error:
        raise StoreError(f"{folder / 'asked.json'}: not a list of points: {error}") from error


def identities(folder: Path) -> list[Identity]:
    """All that a run folder knows of: what was last asked for, and what it has records of."""
    return list(dict.fromkeys([*wanted(folder), *(one.identity for one in read(folder))]))


def _named(name: Identity, asked: list[Identity]) -> str:
    repeats = sum(other.key == name.key for other in asked)
    return name.name if repeats == 1 else f"{name.name} (repeat {name.repeat + 1} of {repeats})"
