"""What a measurement depends on besides its trial: the code, the data, the hosts."""

from collections.abc import Sequence

from bench.data.partition import lines, manifest
from bench.trial import Trial
from launch.hosts import Host
from launch.versions import own_code
from results.record import Identity


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
