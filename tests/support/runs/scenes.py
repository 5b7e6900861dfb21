"""Runs for reports, with records whose true values are known."""

import dataclasses
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.trial import make
from results.record import Record
from results.run import Run
from results.scaling import ScalingRow, scaling
from tests.support.paths import ROOT
from tests.support.runs.records import record

SEED = ROOT / "bench" / "sweeps" / "seed.toml"
MACHINE = {"processor": "AMD EPYC", "cores": 64, "memory_gib": 256, "mxnet": "1.9.1"}
WHEN = {"date": "2026-01-02T03:04:05+00:00", "commit": "abcdef0"}


def point(
    devices: int, images_per_second: float, *, status: str = "ok", repeat: int = 0, **fields: Any
) -> Record:
    """Return a record whose windows vary by 1 % around this throughput."""
    trial = make({"network": "alexnet", "batch_per_device": 8, "devices": devices, **fields})
    second = trial.measuring.steps_per_window * trial.global_batch / images_per_second
    windows = [second * part for part in (1, 1, 0.99, 1.01, 1)]
    return record(
        [windows] * trial.workers, status=status, repeat=repeat, devices=devices, **fields
    )


def three() -> list[Record]:
    """Return AlexNet on 1, 2 and 4 devices of one host."""
    rates = {1: 10.0, 2: 18.0, 4: 30.0}
    return [point(n, rate, devices_per_host=4) for n, rate in rates.items()]


def published() -> list[Record]:
    """Return the published table: 3 networks on 1 to 256 devices, 16 per host."""
    sweep = tomllib.loads(SEED.read_text(encoding="utf-8"))
    layers = {"resnet-152": {"network": "resnet", "num_layers": 152}}
    return [
        point(
            int(devices),
            rate,
            **layers.get(network, {"network": network}),
            batch_per_device=sweep["batch_per_device"][network],
            device="gpu",
            devices_per_host=16,
            kvstore="device" if int(devices) <= 16 else "dist_device_sync",
        )
        for network, rates in sweep["rehearsal"].items()
        for devices, rate in rates.items()
    ]


def run(records: Sequence[Record], name: str = "study", **fields: Any) -> Run:
    """Return a run of these records, without a folder."""
    environment = {"description": "how it scales", **WHEN, **MACHINE}
    whole: dict[str, Any] = {"rows": scaling(records), "environment": environment}
    return Run(folder=Path(name), **whole | fields)


def emulated(rows: Sequence[ScalingRow], devices: int) -> list[ScalingRow]:
    """Return the rows; those with this number of devices are oversubscribed."""
    return [dataclasses.replace(row, emulated=row.trial.layout.devices == devices) for row in rows]
