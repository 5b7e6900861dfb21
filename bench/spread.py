"""A sweep's points over the hosts of a cluster: its devices on one host, then all of 2, 4 ..."""

from typing import Any

from bench.errors import is_whole
from bench.kvstores import is_distributed


def within(devices: int) -> list[int]:
    """Device counts on one host: 1, 2, 4 ... and all."""
    counts = [1]
    while counts[-1] * 2 < devices:
        counts.append(counts[-1] * 2)
    return counts + [devices] * (devices > 1)


def spread(data: dict[str, Any], hosts: int, devices: int) -> dict[str, Any]:
    """What a sweep file says, its device counts replaced by those of a cluster.

    A store within a process goes up to one host's `devices`; a distributed one goes on to all
    `hosts`, from where the file lets it begin: one device, or two hosts. One worker, the base of
    all others through that store, is measured in any case. Points that name no device counts stay
    as they are.
    """
    points = data.get("points")
    if not isinstance(points, list):
        return data
    kept = {name: value for name, value in data.items() if name != "devices"}
    return kept | {
        "points": [
            spread_point
            for point in points
            for spread_point in _points(data, point, hosts, devices)
        ]
    }


def _points(data: dict[str, Any], point: Any, hosts: int, devices: int) -> list[Any]:
    said = data | point if isinstance(point, dict) else {}
    if "devices" not in said:
        return [point]
    stores = said.get("kvstore", "local")
    first, full = _first(said["devices"]), said.get("devices_per_host", 0)
    beyond = [count * devices for count in within(hosts)[1:]]
    made = []
    for store in stores if isinstance(stores, list) else [stores]:
        one_worker = [devices if said.get("device") == "gpu" else 1]
        counts = one_worker if is_distributed(store) and 0 < full < first else within(devices)
        counts += beyond if is_distributed(store) else []
        if counts:
            made.append({**point, "kvstore": store, "devices": counts})
    return made


def _first(counts: Any) -> int:
    """The least of the device counts that a point names."""
    if isinstance(counts, str):
        counts = counts.partition("..")[0]
    listed = counts if isinstance(counts, list) else [counts]
    texts = (one for one in listed if isinstance(one, str) and is_whole(one))
    whole = [*map(int, texts), *(one for one in listed if isinstance(one, int))]
    return min(whole, default=1)
