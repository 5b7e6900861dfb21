"""Engine `mxnet`: MXNet 1.9.1 with its kvstores and parameter server."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bench.engines.engine import (
    MEETING_FOREIGN,
    MEETING_OWN,
    Comm,
    Engine,
    Needs,
    Place,
    meeting_variables,
)
from bench.engines.server import PROFILED
from bench.engines.worker_options import check_options, worker_options
from bench.errors import SpecError, error_line
from bench.kvstores import (
    ALL_REDUCE,
    COMMS,
    JOB_VARIABLES,
    check_all_reduce,
    check_compression,
    check_van,
    checked_kvstore,
    find_kvstore,
)

if TYPE_CHECKING:
    from bench.trial import Trial

# The lowest and highest compute capability that MXNet 1.9.1's wheels hold code for.
_LOWEST_CODE, _NO_CODE = 5.0, 9.0


def dmlc_variables(
    role: str, address: str, scheduler: tuple[str, int], workers: int, servers: int
) -> dict[str, str]:
    """Return the environment that gives ps-lite its role and the scheduler's address.

    `address` is that of the process's own host.
    """
    return {
        "DMLC_ROLE": role,
        "DMLC_PS_ROOT_URI": scheduler[0],
        "DMLC_PS_ROOT_PORT": str(scheduler[1]),
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_NODE_HOST": address,
    }


def _environment(trial: "Trial", place: Place) -> dict[str, str]:
    if not trial.comm.spans:
        return {}
    if not trial.comm.servers:
        return meeting_variables(place, trial.workers)
    return dmlc_variables(place.role, place.address, place.root, trial.workers, trial.servers)


def _roles(trial: "Trial") -> tuple[tuple[str, int], ...]:
    servers = trial.servers
    return ("scheduler", min(servers, 1)), ("server", servers), ("worker", trial.workers)


def _command(trial: "Trial", role: str, index: int) -> tuple[str, ...]:
    """Return module and options of one process; a worker's are those typed by hand."""
    if role == "worker":
        return ("-m", "bench.train_imagenet", *worker_options(trial))
    given = [one.partition("=") for one in trial.mxnet.options]
    profiled = any(name == "--profile-server-suffix" and file for name, _, file in given)
    return ("-m", "bench.engines.server", *([PROFILED] if profiled else []))


def _fill(given: dict[str, Any]) -> None:
    comm = find_kvstore(checked_kvstore(given.setdefault("kvstore", "local")))
    gpu = given["device"] == "gpu"
    # GPUs: one worker per host with all its devices. CPU: a device is one pinned core.
    most = min(given["devices"], given["devices_per_host"])
    given.setdefault("devices_per_worker", 1 if comm.spans and not gpu else most)


def _check(trial: "Trial") -> None:
    gpu = trial.layout.device == "gpu"
    if trial.training.dtype == "float16" and not gpu:
        fix = "Use bfloat16 or device = 'gpu'"
        raise SpecError(error_line("dtype", problem="MXNet 1.9.1 has no float16 on CPU", fix=fix))
    if trial.training.dtype == "bfloat16" and gpu:
        lacks, fix = "MXNet 1.9.1 has bfloat16 on CPU only", "Use float16 on GPUs"
        raise SpecError(error_line("dtype", problem=lacks, fix=fix))
    if trial.layout.kvstore == "nccl" and not gpu:
        fix = "Use kvstore = 'device', or device = 'gpu'"
        raise SpecError(error_line("kvstore", problem="nccl needs GPUs", fix=fix))
    check_compression(
        trial.training.gc_type,
        trial.training.gc_threshold,
        trial.layout.kvstore,
        trial.training.dtype,
    )
    check_all_reduce(trial.layout.kvstore, gpu=gpu, devices=trial.layout.devices_per_worker)
    if trial.layout.kvstore == ALL_REDUCE and (
        trial.layout.servers_per_host or trial.layout.server_hosts
    ):
        problem = f"kvstore {ALL_REDUCE!r} has no servers"
        where = "servers_per_host, server_hosts"
        raise SpecError(error_line(where, problem=problem, fix="Leave them out"))
    check_van(trial.layout.env, trial.layout.kvstore, trial.training.gc_type)
    for name in ("channels_last", "compile"):
        if trial.value(name):
            fix = "Leave it out"
            raise SpecError(error_line(name, expected="engine 'torch'", got="'mxnet'", fix=fix))
    names = [text.partition("=")[0] for text in trial.layout.env]
    for name in names:
        alone = name.startswith("DMLC_") and name not in JOB_VARIABLES
        if alone or (trial.comm.borrows and name in MEETING_OWN):
            problem = f"the launcher sets {name}"
            raise SpecError(error_line("env", problem=problem, fix="Leave it out"))
    if "DMLC_LOCAL" in names and trial.hosts > 1:
        raise SpecError(error_line("env", expected="one host with DMLC_LOCAL", got=trial.hosts))
    check_options(trial)


def _wire_bytes(comm: Comm, compression: str, gradient_bytes: int) -> int:
    """Return the bytes that a worker pushes and pulls: the mean of both.

    Compression by 2bit makes only the pushed gradients smaller. Without servers they are the bytes
    that each of two workers sends.
    """
    if not comm.spans:
        return 0
    if not comm.servers:
        return gradient_bytes // (16 if compression == "ternary" else 1)  # 2 bits for 32
    pushed = gradient_bytes / (16 if compression == "2bit" else 1)  # 2 bits for 32
    return round((pushed + gradient_bytes) / 2)


def _lacks(facts: Mapping[str, Any], needs: Needs) -> str:
    if needs.spans and not facts["dist_kvstore"]:
        return "DIST_KVSTORE"
    return "CUDA" if needs.gpu and not facts["cuda"] else ""


def _no_code(gpu: Mapping[str, str], facts: Mapping[str, Any]) -> str:
    try:
        capability = float(gpu["compute_cap"])
    except ValueError:
        return ""
    if _LOWEST_CODE <= capability < _NO_CODE:
        return ""
    return error_line(
        "",
        problem=(
            f"GPU {gpu['index']} ({gpu['name']}) has compute capability {gpu['compute_cap']}; "
            f"MXNet 1.9.1's wheels support 5.0 to 8.9 (Maxwell to Ada)"
        ),
        fix="Use --engine torch, device = 'cpu' or other GPUs, or build MXNet from source",
    )


def _software(facts: Mapping[str, Any]) -> str:
    return f"MXNet {facts['mxnet']}" if facts.get("mxnet") else ""


MXNET = Engine(
    name="mxnet",
    title="MXNet 1.9.1",
    scripted=False,
    package="mxnet",
    install="Run 'make environment'",
    # Read from the environment: a leftover would join another job.
    foreign=("DMLC_", "PS_", *MEETING_FOREIGN),
    comms=COMMS,
    root="scheduler-0",
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
