"""What a job of DistributedDataParallel can be asked for. Loads no PyTorch."""

from typing import TYPE_CHECKING

from bench.engines.engine import Comm
from bench.errors import SpecError, error_line, quoted
from bench.kvstores import DDP, HOOKS, KVSTORES

if TYPE_CHECKING:
    from bench.training.options import Options

COMMS = {"none": Comm(name="none"), DDP: Comm(name=DDP, spans=True)}
# Communication hooks of DistributedDataParallel, by gc_type.
_COMPRESSIONS = ("none", *HOOKS)
OPTIMIZERS = ("sgd", "nag", "adam")
# Networks whose gradients fill one bucket of DistributedDataParallel.
ONE_BUCKET = ("tiny", "mlp")
# Options of a worker that act in MXNet only.
_MXNET_ONLY = ("monitor", "profile_worker_suffix", "profile_server_suffix", "costs")


def checked_comm(name: str) -> str:
    """Return the name; SpecError for a communication method that PyTorch lacks."""
    if name not in COMMS:
        expected = f"one of {', '.join(COMMS)} with engine 'torch'"
        fix = "Use 'ddp', or engine 'mxnet'" if name in KVSTORES else "Use 'ddp'"
        raise SpecError(error_line("kvstore", expected=expected, got=quoted(name), fix=fix))
    return name


def check_hook(kind: str, *, comm: str, gpu: bool, network: str) -> None:
    """Raise SpecError for a gradient compression that cannot work."""
    if kind not in _COMPRESSIONS:
        expected = f"one of {', '.join(_COMPRESSIONS)} with engine 'torch'"
        raise SpecError(error_line("gc_type", expected=expected, got=quoted(kind)))
    if kind != "none" and not COMMS[comm].spans:
        expected, fix = f"kvstore 'ddp' for {kind}", "Set kvstore to 'ddp', or gc_type to 'none'"
        raise SpecError(error_line("gc_type", expected=expected, got=quoted(comm), fix=fix))
    if kind == "bf16" and not gpu:
        problem, fix = "PyTorch compresses to bf16 on GPUs only", "Use fp16 or device = 'gpu'"
        raise SpecError(error_line("gc_type", problem=problem, fix=fix))
    if kind == "powersgd" and not gpu and network not in ONE_BUCKET:
        problem = f"PyTorch's PowerSGD fails on CPUs for {network}, whose gradients fill several "
        fix = "Use fp16 or device = 'gpu'"
        raise SpecError(error_line("gc_type", problem=f"{problem}buckets", fix=fix))


def check_worker(options: "Options") -> None:
    """Raise SpecError for an option of a worker that PyTorch lacks."""
    checked_comm(options.kv_store)
    check_hook(
        options.gc_type,
        comm=options.kv_store,
        gpu=bool(options.gpus),
        network=options.network,
    )
    if options.optimizer not in OPTIMIZERS:
        expected = f"one of {', '.join(OPTIMIZERS)} with engine 'torch'"
        got, fix = options.optimizer, "Use one of them, or engine 'mxnet'"
        raise SpecError(error_line("--optimizer", expected=expected, got=got, fix=fix))
    for name in _MXNET_ONLY:
        if getattr(options, name) not in (0, "", "none"):
            flag = f"--{name.replace('_', '-')}"
            fix = "Leave it out"
            raise SpecError(error_line(flag, expected="engine 'mxnet'", got="'torch'", fix=fix))
    if options.pretrained or options.bandwidth:
        expected = "engine 'mxnet' for fine-tuning and transfer benchmarks"
        fix = "Use --engine mxnet"
        raise SpecError(error_line("--engine", expected=expected, got="'torch'", fix=fix))
    if options.devices != 1:
        fix = "Start a worker for each device"
        raise SpecError(error_line("--gpus", expected="1 device", got=options.devices, fix=fix))
