"""Engine `torch`: DistributedDataParallel, one process per device.

Loads no PyTorch.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bench.engines.ddp import COMMS, check_hook, checked_comm
from bench.engines.engine import (
    MEETING_FOREIGN,
    MEETING_OWN,
    Comm,
    Engine,
    Needs,
    Place,
    meeting_variables,
)
from bench.engines.worker_options import check_options, worker_options
from bench.errors import SpecError, error_line, quoted

if TYPE_CHECKING:
    from bench.trial import Trial

# Of the locked build for GPUs, for hosts that do not have it yet.
_LOCKED_CODE = ("sm_75", "compute_75")


def _fill(given: dict[str, Any]) -> None:
    several = given["devices"] > 1 and given.get("mode") != "test-io"
    given.setdefault("kvstore", "ddp" if several else "none")
    given.setdefault("devices_per_worker", 1)


def _check(trial: "Trial") -> None:
    layout = trial.layout
    checked_comm(layout.kvstore)
    if trial.mode == "bandwidth":
        expected = "'synthetic', 'real' or 'test-io' with engine 'torch'"
        fix = "Use engine 'mxnet' for it"
        raise SpecError(error_line("mode", expected=expected, got=quoted(trial.mode), fix=fix))
    if trial.mode == "test-io":
        _check_reading(trial)
    if layout.devices_per_worker != 1:
        fix = "Leave it out: each device has a process"
        count = layout.devices_per_worker
        raise SpecError(error_line("devices_per_worker", expected="1", got=count, fix=fix))
    if layout.servers_per_host or layout.server_hosts:
        problem = "engine 'torch' has no servers"
        where = "servers_per_host, server_hosts"
        raise SpecError(error_line(where, problem=problem, fix="Leave them out"))
    gpu = layout.device == "gpu"
    check_hook(trial.training.gc_type, comm=layout.kvstore, gpu=gpu, network=trial.model.network)
    for name in (text.partition("=")[0] for text in layout.env):
        if name in MEETING_OWN or name.startswith("DMLC_"):
            problem = (
                f"the launcher sets {name}" if name in MEETING_OWN else f"PyTorch ignores {name}"
            )
            raise SpecError(error_line("env", problem=problem, fix="Leave it out"))
    if trial.mxnet.costs != "none":
        got, fix = quoted(trial.engine), "Leave it out"
        raise SpecError(error_line("costs", expected="engine 'mxnet'", got=got, fix=fix))
    check_options(trial, ("--engine=torch",))


def _check_reading(trial: "Trial") -> None:
    """Raise SpecError for what a benchmark of the input pipeline has no use for."""
    if trial.workers != 1:
        expected, fix = "1 with mode 'test-io' and engine 'torch'", "Use engine 'mxnet' for several"
        raise SpecError(error_line("devices", expected=expected, got=trial.workers, fix=fix))
    for name in ("channels_last", "compile"):
        if trial.value(name):
            problem = "mode 'test-io' has no use for it"
            raise SpecError(error_line(name, problem=problem, fix="Leave it out"))


def _environment(trial: "Trial", place: Place) -> dict[str, str]:
    return meeting_variables(place, trial.workers) if trial.comm.spans else {}


def _command(trial: "Trial", role: str, index: int) -> tuple[str, ...]:
    return ("-m", "bench.train_imagenet", *worker_options(trial))


def _wire_bytes(comm: Comm, compression: str, gradient_bytes: int) -> int:
    """Return the bytes that each of two workers sends.

    Of many workers, each sends up to twice as much.
    """
    if not comm.spans:
        return 0
    return round(gradient_bytes / (2 if compression in {"fp16", "bf16"} else 1))


def _lacks(facts: Mapping[str, Any], needs: Needs) -> str:
    return "CUDA" if needs.gpu and not facts.get("torch_cuda") else ""


def _no_code(gpu: Mapping[str, str], facts: Mapping[str, Any]) -> str:
    try:
        major, minor = map(int, gpu["compute_cap"].split("."))
    except ValueError:
        return ""
    built = tuple(facts.get("torch_archs") or _LOCKED_CODE)
    if any(_runs(name, (major, minor)) for name in built):
        return ""
    whose = _software(facts) if facts.get("torch_archs") else "PyTorch's build for CUDA 13"
    problem = (
        f"GPU {gpu['index']} ({gpu['name']}) has compute capability {gpu['compute_cap']}; "
        f"{whose} holds code for {', '.join(built)}"
    )
    fix = "Set device = 'cpu', use other GPUs, or install a build of PyTorch for this one"
    return error_line("", problem=problem, fix=fix)


def _runs(name: str, capability: tuple[int, int]) -> bool:
    """Return whether code such as 'sm_90a' runs on a GPU of this capability."""
    kind, _, version = name.partition("_")
    if not version.rstrip("af").isdecimal():
        return False
    own = divmod(int(version.rstrip("af")), 10)
    if version.endswith("a"):  # features of this chip alone
        return capability == own
    if kind == "compute":  # compiled for newer chips by the driver
        return capability >= own
    return capability[0] == own[0] and capability >= own


def _software(facts: Mapping[str, Any]) -> str:
    return f"PyTorch {facts['torch']}" if facts.get("torch") else ""


def _roles(trial: "Trial") -> tuple[tuple[str, int], ...]:
    return (("worker", trial.workers),)


TORCH = Engine(
    name="torch",
    title="PyTorch",
    scripted=False,
    package="torch",
    install="Run 'make torch'",
    foreign=MEETING_FOREIGN,
    comms=COMMS,
    root="worker-0",
    fill=_fill,
    check=_check,
    roles=_roles,
    environment=_environment,
    command=_command,
    wire_bytes=_wire_bytes,
    lacks=_lacks,
    no_code=_no_code,
    software=_software,
)
