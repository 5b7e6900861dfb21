"""Every point against one device, one full host and one worker through its store."""

from typing import Any

from results.record import Record
from results.scaling import scaling
from tests.test_scaling import record


def point(kvstore: str, devices: int, seconds: float, **fields: Any) -> Record:
    """Two devices a host, one a worker; `seconds` a window."""
    whole = {"devices": devices, "devices_per_host": 2, "kvstore": kvstore, **fields}
    workers = devices if "dist" in kvstore else 1
    return record([[1, seconds, seconds, seconds]] * workers, **whole)


def sweep(**fields: Any) -> list[Record]:
    """One and two devices without servers, then one to four with them: 8 images a device."""
    return [
        point("local", 1, 1.0),
        point("local", 2, 1.25),
        point("dist_sync", 1, 2.0, **fields),
        point("dist_sync", 2, 2.0, **fields),
        point("dist_sync", 4, 2.5, **fields),
    ]


def test_a_point_of_several_hosts_has_all_three_bases() -> None:
    last = scaling(sweep())[-1]
    found = {
        against.base: (against.speedup.value, round(against.efficiency.value, 6))
        for against in (last.device, last.host, last.worker)
    }
    assert found == {
        "local on 1 device": (1.6, 0.4),
        "local on 2 devices": (1.0, 0.5),
        "dist_sync on 1 device": (3.2, 0.8),
    }


def test_which_bases_apply_depends_on_the_size_and_the_store() -> None:
    rows = scaling(sweep())
    assert [row.device is not None for row in rows] == [True] * 5
    assert [row.host is not None for row in rows] == [False, True, False, True, True]
    assert [row.worker is not None for row in rows] == [False, False, True, True, True]


def test_servers_on_hosts_of_their_own_lose_no_base() -> None:
    last = scaling(sweep(server_hosts=1))[-1]
    assert last.device.base == "local on 1 device"
    assert last.host.base == "local on 2 devices"
    assert last.worker.base == "dist_sync on 1 device"
    (row,) = [
        row
        for row in scaling([*sweep(server_hosts=1)[2:], point("dist_sync", 4, 3.0)])
        if not row.trial.server_hosts
    ]
    assert (row.device, row.host, row.worker) == (None, None, None)


def test_a_full_host_through_a_store_with_servers_elsewhere_is_a_base() -> None:
    rows = scaling(sweep(server_hosts=1)[2:])
    assert rows[-1].host.base == "dist_sync on 2 devices"


def test_a_longer_warm_up_or_measurement_is_no_other_series() -> None:
    rows = scaling(
        [point("local", 1, 1.0), point("dist_sync", 4, 2.0, warmup_windows=2, windows=1)]
    )
    assert rows[-1].device.speedup.value == 2.0


def test_a_worker_with_several_devices_is_the_base_of_its_kind() -> None:
    fields = {"devices_per_worker": 2, "devices_per_host": 2, "kvstore": "dist_sync"}
    rows = scaling(
        [
            record([[1, 1.0, 1.0]], devices=2, **fields),
            record([[1, 2.0, 2.0]] * 2, devices=4, **fields),
        ]
    )
    assert rows[-1].worker.base == "dist_sync on 2 devices"
    assert rows[-1].worker.speedup.value == 1.0
    assert rows[-1].device is None
