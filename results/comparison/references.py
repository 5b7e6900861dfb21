"""Published tables of other projects, opened as runs and labeled."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.errors import unknown
from bench.networks import named
from bench.trial import Trial, make
from results.record import Identity, Rank, Record
from results.run import Run
from results.scaling import scaling

FOLDER = Path(__file__).parent.parent / "reference"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A published table of single figures.

    gpu                model of each device; a host has `devices_per_host` of them
    instances          hosts and network, as text
    software           versions, "" if not published
    notes              caveats of the figures
    batch_per_device   images per step, by network
    model_megabytes    size of the parameters, by network
    images_per_second  throughput of the whole job, by network and devices
    """

    name: str
    description: str
    source: str
    gpu: str
    devices_per_host: int
    instances: str
    kvstore: str
    notes: tuple[str, ...]
    batch_per_device: dict[str, int]
    model_megabytes: dict[str, int]
    images_per_second: dict[str, dict[int, float]]
    software: str = ""


def table_names() -> list[str]:
    """Return the names of the tables shipped with mxscale."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_table(name: str) -> Reference:
    """Read a table by name; raise SpecError with the known names if there is none."""
    if name not in table_names():
        raise unknown("reference", name, table_names())
    data = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return msgspec.convert(data | {"name": name}, Reference, strict=False)


def reference(name: str) -> Run:
    """Return the published table as a run; its folder is only a name.

    Raises SpecError with the known names if there is no such table.
    """
    table = read_table(name)
    cells = [
        (network, devices, rate)
        for network, rates in table.images_per_second.items()
        for devices, rate in rates.items()
    ]
    records = [_record(table, *cell) for cell in cells]
    environment = {
        "description": table.description,
        "source": table.source,
        "gpus": table.gpu,
        "instances": table.instances,
        "software": table.software,
        "notes": "; ".join(table.notes),
    }
    return Run(folder=FOLDER / name, rows=scaling(records), environment=environment)


def differing_cells(one: Reference, other: Reference) -> list[tuple[str, int]]:
    """Return the shared cells (network, devices) with different figures."""
    return [
        (network, devices)
        for network, rates in one.images_per_second.items()
        for devices in rates.keys() & other.images_per_second.get(network, {}).keys()
        if rates[devices] != other.images_per_second[network][devices]
    ]


def _record(table: Reference, network: str, devices: int, rate: float) -> Record:
    """Return the record of one cell: one window of one step per worker."""

    trial = _trial(table, network, devices)
    seconds = trial.global_batch / rate
    ranks = tuple(
        Rank(
            rank=number,
            host=f"host{number:02}",
            process=f"worker-{number}",
            seconds=(seconds,),
            ends=(seconds,),
            images=(batch,),
        )
        for number, batch in enumerate(trial.worker_batches)
    )
    return Record(
        trial=trial,
        identity=Identity(
            name=trial.name,
            key=trial.key,
            repeat=0,
            code_hash="",
            data_manifest="",
            hosts=tuple(rank.host for rank in ranks),
        ),
        status="ok",
        message="",
        ranks=ranks,
        emulated=False,
        started="",
        elapsed_seconds=0.0,
        source=f"published: {table.source}",
    )


def _trial(table: Reference, network: str, devices: int) -> Trial:
    family, layers = named(network)
    fields: dict[str, Any] = {
        "network": family,
        "num_layers": layers,
        "device": "gpu",
        "devices": devices,
        "devices_per_host": table.devices_per_host,
        "kvstore": table.kvstore,
        "batch_per_device": table.batch_per_device[network],
        "steps_per_window": 1,
        "warmup_windows": 0,
        "windows": 1,
        "precision": 0.0,
    }
    return make(fields)
