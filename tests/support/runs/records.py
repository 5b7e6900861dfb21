"""Records with given windows, and the points of a published table."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from bench.trial import make
from results.record import Identity, Rank, Record

PUBLISHED = {1: 457.07, 2: 870.43, 4: 1514.8, 8: 2852.5, 16: 4244.18, 32: 7945.57}
PUBLISHED |= {64: 15840.52, 128: 31334.88, 256: 61938.36}


def record(
    seconds: Sequence[Sequence[float]], *, repeat: Any = 0, status: Any = "ok", **fields: Any
) -> Record:
    """Return a record with these windows; `seconds` is one list per rank."""
    base = {"network": "alexnet", "batch_per_device": 8, "warmup_windows": 1}
    trial = make(base | fields)
    ranks = tuple(
        Rank(
            rank=number,
            host="h",
            process=f"worker-{number}",
            seconds=tuple(one),
            ends=tuple(math.fsum(one[: n + 1]) for n in range(len(one))),
            images=(trial.worker_batch * trial.measuring.steps_per_window,) * len(one),
        )
        for number, one in enumerate(seconds)
    )
    return Record(
        trial=trial,
        identity=Identity(
            name=trial.name,
            key=trial.key,
            repeat=repeat,
            code_hash="",
            data_manifest="",
            hosts=("h",),
        ),
        status=status,
        message="" if status == "ok" else "broken",
        ranks=ranks,
        emulated=False,
        started="",
        elapsed_seconds=0.0,
    )


def points(rates: dict[int, float], per_host: int = 16) -> list[Record]:
    """Return records of one series with these throughputs by device count."""
    found = []
    for devices, images in rates.items():
        fields = {
            "devices": devices,
            "devices_per_host": per_host,
            "device": "gpu",
            "kvstore": "device" if devices <= per_host else "dist_device_sync",
        }
        trial = make({"network": "alexnet", "batch_per_device": 8, **fields})
        step = trial.measuring.steps_per_window * trial.global_batch / images
        found.append(record([[step] * 5] * trial.workers, **fields))
    return found


def with_versions(one: Record) -> Record:
    """Return the record with the versions that a publishable point needs."""
    facts = {"mxnet": "1.9.1", "python": "3.11.7", "instructions": "avx2"}
    return dataclasses.replace(
        one,
        identity=dataclasses.replace(one.identity, code_hash="abc"),
        ranks=tuple(dataclasses.replace(rank, facts=facts | rank.facts) for rank in one.ranks),
    )
