"""Runs to export: good, failed, missing and hostile points."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from results.record import Record
from results.run import Run, load
from tests.support.runs.records import record
from tests.support.runs.stores import stored

HOSTILE = '<script>\x00]]>\n\ud800 \U0001f389 "it\'s" {a="b"} :::MLLOG \x1b[31m' + "long " * 4000
BATCHES = {"devices_per_host": 2}
REHEARSED = {"engine": "fake"}


def needed(module: str) -> Any:
    """Return the exporter; skip the test with the fix if its library is missing."""
    return pytest.importorskip(
        f"results.exports.{module}",
        reason="needs the libraries of results.export: make exports",
        exc_type=ModuleNotFoundError,
    )


def repeat(windows: list[list[float]], **fields: Any) -> Record:
    """Return a record with losses and a date, and optional `source` and `message`."""
    given = {name: fields.pop(name) for name in ("source", "message") if name in fields}
    made = record(windows, **BATCHES | fields)
    ranks = tuple(
        dataclasses.replace(rank, losses=tuple(2 - at / 10 for at in range(len(rank.seconds))))
        for rank in made.ranks
    )
    return dataclasses.replace(
        made, **given, ranks=ranks, started="2026-01-01T00:00:00+00:00", elapsed_seconds=9.5
    )


def good() -> list[Record]:
    """Return 1 device and 2 devices with two repeats: 8, 12.3 and 12.3 images/s."""
    two = {"devices": 2}
    return [
        repeat([[1, 1.0, 1.0]]),
        *(repeat([[1, 1.3, 1.3]], repeat=number, **two) for number in (0, 1)),
    ]


def bad() -> list[Record]:
    """Return a failed point with every kind of character in its message."""
    return [repeat([[1, 1.0]], network="vgg", num_layers=16, status="hung", message=HOSTILE)]


def run_of(folder: Path, records: list[Record], missing: list[Record] | None = None) -> Run:
    """Return a run folder with these records; the missing ones have not run."""
    stored(folder, *records)
    asked = [dataclasses.asdict(one.identity) for one in [*records, *(missing or [])]]
    (folder / "asked.json").write_text(json.dumps(asked))
    return load(folder)
