"""What a measurement depends on besides its trial: the code, the data, the hosts."""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from bench.contents import lines, manifest
from bench.trial import Trial
from launch.code import code_hash
from launch.hosts import ROOT, Host
from results.record import Identity


@cache
def own_code() -> str:
    """The hash of this checkout's code."""
    return code_hash(ROOT)


@cache
def own_versions() -> dict[str, str]:
    """The Python of this process and its MXNet, as hosts are compared by them."""
    try:
        mxnet = version("mxnet")
    except PackageNotFoundError:
        mxnet = "none"
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "mxnet": mxnet}


def data_manifest(trial: Trial) -> str:
    """Of the trial's data on this machine; SpecError where a shard is missing or damaged."""
    named = [data for data in (trial.data_train, trial.data_val) if data]
    return manifest(line for data in named for line in lines(data))


def identity(trial: Trial, repeat: int, hosts: Sequence[Host], data: str) -> Identity:
    """What must be the same for a record to count for this trial; `data` is their manifest."""
    return Identity(
        name=trial.name,
        key=trial.key,
        repeat=repeat,
        code_hash=own_code(),
        data_manifest=data,
        hosts=tuple(host.name for host in hosts[: trial.hosts]),
    )
