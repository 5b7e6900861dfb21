"""MXNet's communication methods: the kvstores that a job may use.

MXNet silently treats any name that contains "dist" as a distributed kvstore and any other unknown
name as a local one. A typing error would then look like perfect scaling.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bench.engines.engine import Comm, find_comm
from bench.errors import SpecError, error_line, quoted, unknown

if TYPE_CHECKING:
    from bench.training.options import Options

LOCAL = ("local", "device", "nccl")
DISTRIBUTED = (
    "dist_sync",
    "dist_device_sync",
    "dist_sync_device",
    "dist_async",
    "dist_device_async",
)
# Workers add up gradients by themselves, by PyTorch's gloo. Not one of MXNet's.
ALL_REDUCE = "allreduce"
# With 0, workers of one host exchange gradients over its loopback.
SHARED_VARIABLE = "MXSCALE_SHARED_MEMORY"
KVSTORES = (*LOCAL, *DISTRIBUTED, ALL_REDUCE)
COMMS = {
    name: Comm(
        name=name,
        spans=name in DISTRIBUTED,
        waits="async" not in name,
        servers=name in DISTRIBUTED,
    )
    for name in LOCAL + DISTRIBUTED
} | {ALL_REDUCE: Comm(name=ALL_REDUCE, spans=True, borrows="torch")}
# For kvstores with servers, and for all-reduce.
TERNARY = "ternary"
COMPRESSIONS = ("none", "2bit", TERNARY)
# MXNet keeps the threshold of 2bit as a 32-bit number and rejects 0.
_LEAST_THRESHOLD = 1e-37
# PyTorch's DistributedDataParallel, and its communication hooks.
DDP = "ddp"
HOOKS = ("fp16", "bf16", "powersgd")
# How ps-lite sends messages: over TCP, and over TCP in slices by priority.
VAN_VARIABLE = "DMLC_PS_VAN_TYPE"
VANS = ("zmq", "p3")
# Variables of MXNet's launcher that a job may set; all others follow from its processes.
JOB_VARIABLES = ("DMLC_LOCAL", VAN_VARIABLE, "DMLC_PS_WATER_MARK")


def checked_kvstore(name: str) -> str:
    """Return the name; SpecError with the nearest known name for an unknown one."""
    if name == DDP:
        expected, fix = "engine 'torch'", "Use engine 'torch', or kvstore 'allreduce'"
        raise SpecError(error_line("kvstore 'ddp'", expected=expected, got="'mxnet'", fix=fix))
    if name not in KVSTORES:
        raise unknown("kvstore", name, KVSTORES)
    return name


def find_kvstore(name: str) -> Comm:
    """Return the kvstore of this name; one of an imported log is of one process."""
    return find_comm(COMMS, name)


def check_compression(kind: str, threshold: float, store: str, dtype: str) -> None:
    """Raise SpecError if this kvstore and data type do not support the compression."""
    if kind not in COMPRESSIONS:
        expected = f"one of {', '.join(COMPRESSIONS)} with engine 'mxnet'"
        fix = "Use one of them, or engine 'torch'" if kind in HOOKS else "Use one of them"
        raise SpecError(error_line("gc_type", expected=expected, got=quoted(kind), fix=fix))
    if not threshold >= _LEAST_THRESHOLD:
        expected, got = f"a number of at least {_LEAST_THRESHOLD:g}", f"{threshold:g}"
        raise SpecError(error_line("gc_threshold", expected=expected, got=got))
    if kind == "none":
        return
    if kind == TERNARY and store != ALL_REDUCE:
        expected = f"kvstore {quoted(ALL_REDUCE)} for {kind}"
        fix = f"Set kvstore to {quoted(ALL_REDUCE)}, or gc_type to '2bit'"
        raise SpecError(
            error_line("gc_type (--gc-type)", expected=expected, got=quoted(store), fix=fix)
        )
    if kind != TERNARY and not find_kvstore(store).servers:
        other = TERNARY if store == ALL_REDUCE else "none"
        raise SpecError(
            error_line(
                "gc_type (--gc-type)",
                expected=f"a kvstore with servers (dist_...) for {kind}",
                got=quoted(store),
                fix="Set kvstore to 'dist_sync', or gc_type to " + quoted(other),
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


def check_all_reduce(store: str, *, gpu: bool, devices: int) -> None:
    """Raise SpecError if all-reduce cannot add up a worker's gradients."""
    if store != ALL_REDUCE:
        return
    where = f"kvstore {quoted(store)}"
    if gpu:
        fix = "Use dist_device_sync, or engine = 'torch'"
        raise SpecError(error_line(where, expected="CPUs", got="GPUs", fix=fix))
    if devices != 1:
        fix = "Start a worker for each device"
        raise SpecError(error_line(where, expected="1 device per worker", got=devices, fix=fix))


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


def check_arithmetic(options: "Options") -> None:
    """Raise SpecError for arithmetic that MXNet lacks on a worker's devices."""
    for name in ("channels_last", "compile"):
        if getattr(options, name):
            flag = f"--{name.replace('_', '-')}"
            raise SpecError(error_line(flag, expected="--engine torch", got="mxnet", fix="Give it"))
    if options.dtype == "float16" and not options.gpus:
        raise SpecError(
            error_line(
                "--dtype float16", problem="MXNet 1.9.1 has no float16 on CPU", fix="Use bfloat16"
            )
        )
    if options.dtype == "bfloat16" and options.gpus:
        raise SpecError(
            error_line(
                "--dtype bfloat16",
                problem="MXNet 1.9.1 has it on CPU only",
                fix="Use float16 on GPUs",
            )
        )
    if options.kv_store == "nccl" and not options.gpus:
        raise SpecError(
            error_line(
                "--kv-store nccl", expected="--gpus", got="none", fix="Use --kv-store device"
            )
        )
    check_compression(options.gc_type, options.gc_threshold, options.kv_store, options.dtype)
    check_all_reduce(options.kv_store, gpu=bool(options.gpus), devices=options.devices)
