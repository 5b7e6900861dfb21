"""MXNet's communication methods: the kvstores that a job may use.

MXNet silently treats any name that contains "dist" as a distributed kvstore and any other unknown
name as a local one. A typing error would then look like perfect scaling.
"""

import math
from collections.abc import Iterable

from bench.engines.engine import Comm, find_comm
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
COMMS = {
    name: Comm(
        name=name,
        spans=name in DISTRIBUTED,
        waits="async" not in name,
        servers=name in DISTRIBUTED,
    )
    for name in KVSTORES
}
COMPRESSIONS = ("none", "2bit")
# How ps-lite sends messages: over TCP, and over TCP in slices by priority.
VAN_VARIABLE = "DMLC_PS_VAN_TYPE"
VANS = ("zmq", "p3")
# Variables of MXNet's launcher that a job may set; all others follow from its processes.
JOB_VARIABLES = ("DMLC_LOCAL", VAN_VARIABLE, "DMLC_PS_WATER_MARK")


def checked_kvstore(name: str) -> str:
    """Return the name; SpecError with the nearest known name for an unknown one."""
    if name not in KVSTORES:
        raise unknown("kvstore", name, KVSTORES)
    return name


def find_kvstore(name: str) -> Comm:
    """Return the kvstore of this name; one of an imported log is of one process."""
    return find_comm(COMMS, name)


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
    if not find_kvstore(store).servers:
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


def check_van(env: Iterable[str], store: str, compression: str) -> None:
    """Raise SpecError if the kvstore or the compression does not work with the van.

    MXNet's P3 store aborts in both cases (src/kvstore/p3store_dist.h). `env` has 'NAME=VALUE's.
    """
    van = dict(text.partition("=")[::2] for text in env).get(VAN_VARIABLE, "")
    if van not in {"", *VANS}:
        known = " or ".join(VANS)
        fix = "Leave it out for zmq, ps-lite's own"
        raise SpecError(error_line(VAN_VARIABLE, expected=known, got=quoted(van), fix=fix))
    if van != "p3":
        return
    if not find_kvstore(store).servers or not find_kvstore(store).waits:
        raise SpecError(
            error_line(
                f"{VAN_VARIABLE}=p3",
                expected="a synchronous kvstore with servers",
                got=quoted(store),
                fix="Use dist_sync",
            )
        )
    if compression != "none":
        raise SpecError(
            error_line(
                f"{VAN_VARIABLE}=p3",
                expected="gc_type 'none'",
                got=quoted(compression),
                fix="Leave one of them out",
            )
        )


def check_bandwidth(store: str) -> None:
    """Raise SpecError for asynchronous kvstores, whose servers need an optimizer."""
    if not find_kvstore(store).waits:
        raise SpecError(
            error_line("bandwidth", expected="a synchronous kvstore", got=quoted(store))
        )
