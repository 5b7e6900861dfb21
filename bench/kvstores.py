"""The parameter stores a job may use.

MXNet takes any name that contains "dist" for a distributed store and any other name it does not
know for a local one, silently: a typing error then looks like perfect scaling.
"""

import math

from bench.errors import SpecError, quoted, unknown

LOCAL = ("local", "device", "nccl")
DISTRIBUTED = (
    "dist_sync",
    "dist_device_sync",
    "dist_sync_device",
    "dist_async",
    "dist_device_async",
)
KVSTORES = LOCAL + DISTRIBUTED
COMPRESSIONS = ("none", "2bit")


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


def check_compression(kind: str, threshold: float, store: str, dtype: str) -> None:
    """SpecError where gradients cannot be compressed so on their way to this store."""
    if kind not in COMPRESSIONS:
        raise SpecError(f"gc_type: expected one of {', '.join(COMPRESSIONS)}, got {quoted(kind)}")
    if not math.isfinite(threshold) or threshold <= 0:
        raise SpecError(f"gc_threshold: expected a number above 0, got {threshold}")
    if kind == "none":
        return
    if not is_distributed(store):
        raise SpecError(
            f"gc_type (--gc-type): {kind} is for stores with servers (dist_...), "
            f"got {quoted(store)}"
        )
    if dtype == "float16":
        raise SpecError(
            f"gc_type (--gc-type): {kind} compresses float32 gradients only, "
            f"got dtype {quoted(dtype)}"
        )


def check_bandwidth(store: str) -> None:
    """SpecError where servers take nothing without an optimiser, which pushes and pulls lack."""
    if is_async(store):
        raise SpecError(f"bandwidth: expected a store that is synchronous, got {quoted(store)}")
