"""What a measurement depends on besides its trial: the code, the data, the hosts."""

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bench.errors import SpecError
from bench.shards import count_images, shards
from bench.trial import Trial
from launch.code import code_hash
from launch.hosts import ROOT, Host
from results.record import Identity


@cache
def own_code() -> str:
    """The hash of this checkout's code."""
    return code_hash(ROOT)


def data_manifest(trial: Trial) -> str:
    """Twelve hex digits over the trial's shards, empty where it reads none.

    The checksum that the packer left beside a shard stands for it; its size and time of change do
    where there is none. Raises SpecError where a shard is missing, empty or cut off.
    """
    digest = hashlib.sha256()
    named = [data for data in (trial.data_train, trial.data_val) if data]
    for data in named:
        for path in shards(data):
            count = count_images((path,))
            digest.update(f"{path.name} {count} {_shard_sum(path, count)}".encode())
    return digest.hexdigest()[:12] if named else ""


def _shard_sum(path: Path, count: int) -> str:
    manifest = path.with_suffix(".json")
    status = path.stat()
    if not manifest.is_file():
        return f"{status.st_size} {status.st_mtime_ns}"
    try:
        made = json.loads(manifest.read_text(encoding="utf-8"))
        images, size, checksum = made["images"], made["bytes"], made["crc32c"]
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(f"{manifest}: not a manifest of a shard: {error}") from error
    if size != status.st_size:
        raise SpecError(
            f"{path}: its manifest says {size} bytes, it has {status.st_size}; pack it again"
        )
    if images != count:
        raise SpecError(
            f"{path.with_suffix('.idx')}: lists {count} images, the manifest says {images}; pack "
            f"{path.name} again"
        )
    return str(checksum)


def identity(trial: Trial, repeat: int, hosts: Sequence[Host]) -> Identity:
    """What must be the same for a record to count for this trial."""
    return Identity(
        name=trial.name,
        key=trial.key,
        repeat=repeat,
        code_hash=own_code(),
        data_manifest=data_manifest(trial),
        hosts=tuple(host.name for host in hosts[: trial.hosts]),
    )
