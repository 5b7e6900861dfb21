"""Runs to compare, of repeats with little variance."""

from pathlib import Path
from typing import Any

from results.record import Record
from results.run import Run
from results.scaling import scaling
from tests.support.runs.records import record

# Seconds of windows, warm-up first, with a 95 % CI of ±2 %.
QUIET = (1.0, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99)


def run(name: str, *records: Record, **environment: Any) -> Run:
    return Run(folder=Path(name), rows=scaling(records), environment=environment)


def quiet(factor: float = 1.0, repeats: int = 3, **fields: Any) -> list[Record]:
    """Return repeats that take `factor` times as long, with 0.2 % of variation."""
    return [
        record([[factor * (1 + 0.002 * n) * one for one in QUIET]], repeat=n, **fields)
        for n in range(repeats)
    ]
