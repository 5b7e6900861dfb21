"""The parameter stores a job may use.

MXNet takes any name that contains "dist" for a distributed store and any other name it does not
know for a local one, silently: a typing error then looks like perfect scaling.
"""

from bench.errors import unknown

LOCAL = ("local", "device")
DISTRIBUTED = (
    "dist_sync",
    "dist_device_sync",
    "dist_sync_device",
    "dist_async",
    "dist_device_async",
)
KVSTORES = LOCAL + DISTRIBUTED


def checked_kvstore(name: str) -> str:
    """The name; SpecError with the nearest one there is where there is no such store."""
    if name not in KVSTORES:
        raise unknown("kvstore", name, KVSTORES)
    return name


def is_distributed(name: str) -> bool:
    """Whether the store has servers in processes of their own."""
    return name in DISTRIBUTED


def is_async(name: str) -> bool:
    """Whether workers go on without waiting for each other's gradients."""
    return "async" in name
