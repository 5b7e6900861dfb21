"""Steps and records with the measurements that a verdict needs."""

import dataclasses
from typing import Any

from results.explain.measurements import StepMeasurements
from results.record import Record
from results.scaling import ScalingRow, scaling
from tests.support.runs.records import record

# A step of two hosts that computes for 0.95 s of 1 s, with everything measured.
QUIET = StepMeasurements(
    step=1.0,
    noise=0.01,
    alone=0.95,
    own=0.9,
    own_alone=0.9,
    input=0.0,
    server_cpu=0.03,
    server_delay=0.0,
    link_bytes=1e6,
    bytes_each_way=1e6,
    other_cores=0.0,
    tcp_bytes_per_second=100e6,
    workers=2,
    servers=2,
    hosts=2,
)


def known(**fields: Any) -> StepMeasurements:
    return dataclasses.replace(QUIET, **fields)


STORE = {"kvstore": "dist_sync", "devices": 2, "devices_per_host": 1}


def measured(
    one: Record,
    *,
    own: tuple[float, ...],
    waits: tuple[float, ...],
    machines: dict[str, list[dict[str, Any]]] | None = None,
) -> Record:
    """Return the record with one probe time and one wait per window and rank."""
    ranks = tuple(
        dataclasses.replace(
            rank,
            own_seconds=(own[rank.rank],) * 8,
            input_wait=(waits[rank.rank],) * len(rank.seconds),
            run_delay=(0.25 * waits[rank.rank],) * len(rank.seconds),
        )
        for rank in one.ranks
    )
    return dataclasses.replace(one, ranks=ranks, machines=machines or {})


def counters(**last: Any) -> list[dict[str, Any]]:
    """Return the counters of a host at both ends of 10 s; the first values are 0."""
    server = {"process": "server-0", "cpu_seconds": 0.0, "run_delay": 0.0}
    network = {"interface": "eth0", "bytes_in": 0, "bytes_out": 0}
    amounts = {"seconds": 10.0, "others": 1.0, "stolen": 0.5, "swapped": 0, "throttled": 0}
    first = {"at": 100.0, "cores": 2, "servers": [server], "network": network}
    return [
        first,
        {
            "at": 110.0,
            "cores": 2,
            "interference": amounts,
            "servers": [server | {"cpu_seconds": last.pop("cpu"), "run_delay": last.pop("delay")}],
            "network": network | last,
        },
    ]


def rows(**changes: Any) -> list[ScalingRow]:
    """Return the rows of one device (1 s) and of two hosts (2 s) with busy servers."""
    alone = measured(record([[1.0] * 6]), own=(0.9,), waits=(0.0,))
    busy = {
        "n1": counters(cpu=1.0, delay=4.0, bytes_in=10**6, bytes_out=10**6),
        "n2": counters(cpu=0.5, delay=0.0, bytes_in=0, bytes_out=3 * 10**6),
    }
    point = record([[2.0] * 6] * 2, **STORE)
    known = {"own": (0.9, 0.92), "waits": (0.0, 0.0), "machines": busy}
    return scaling([alone, measured(point, **(known | changes))])
