"""The kvstores that a job may use.

MXNet silently treats any name that contains "dist" as a distributed kvstore and any other unknown
name as a local one. A typing error would then look like perfect scaling.
"""

import math

from bench.errors import SpecError, error_line, quoted, unknown

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
    """Return the name; SpecError with the nearest known name for an unknown one."""
    if name not in KVSTORES:
        raise unknown("kvstore", name, KVSTORES)
    return name


def is_distributed(name: str) -> bool:
    """Return whether the kvstore has server processes."""
    return name in DISTRIBUTED


def is_async(name: str) -> bool:
    """Return whether workers do not wait for each other's gradients."""
    return "async" in name


def check_compression(kind: str, threshold: float, store: str, dtype: str) -> None:
    """Raise SpecError if this kvstore and data type do not support the compression."""
    if kind not in COMPRESSIONS:
        raise SpecError(
            error_line("gc_type", expected=f"one of {', '.join(COMPRESSIONS)}", got=quoted(kind))
        )
    if not math.isfinite(threshold) or threshold <= 0:
        raise SpecError(error_line("gc_threshold", expected="a number above 0", got=threshold))
    if kind == "none":
        return
    if not is_distributed(store):
        raise SpecError(
            error_line(
                "gc_type (--gc-type)",
                expected=f"a kvstore with servers (dist_...) for {kind}",
                got=quoted(store),
            )
        )
    if dtype == "float16":
        raise SpecError(
            error_line(
                "gc_type (--gc-type)",
                expected=f"float32 gradients for {kind}",
                got=f"dtype {quoted(dtype)}",
            )
        )


def check_bandwidth(store: str) -> None:
    """Raise SpecError for asynchronous kvstores, whose servers need an optimizer."""
    if is_async(store):
        raise SpecError(
            error_line("bandwidth", expected="a synchronous kvstore", got=quoted(store))
        )
