"""Measure the time and memory of the report of a large run.

Writes a run with artificial times (2.5 GB of records by default). Runs 'fab report.show',
'report.explain', 'report.predict' and 'report.build' on it, and prints wall time, peak memory and
file sizes. Results: docs/explanation/benchmarks.md.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.statistics.confidence import Numbers
from bench.trial import Trial, make
from launch.hosts import ROOT
from results import record
from results.record import Identity, Rank, Record
from results.run_folder import RECORDS, REPORT
from tasks.report import UNSTEADY

_NETWORKS = ("alexnet", "inception-v3", "resnet", "vgg", "mobilenet")
_STORES = ("dist_sync", "dist_device_sync")
_FACTS = {"num_workers": 256, "devices": 1, "arrays": 16, "mxnet": "1.9.1", "tf32": False}
_FACTS |= {"instructions": "avx512_core", "variables": {"OMP_NUM_THREADS": "1"}}
_FACTS |= {"weight_hash": "9acf1fb4961f5aff", "peak_memory_bytes": 1139396608, "python": "3.11.7"}
_PER_HOST = 16
# One store and one batch of each network.
_PREDICT = (
    *("report.predict", "--devices", "5120"),
    *("--point", "dist_sync batch_per_device=1"),
)


def trials(count: int, ranks: int) -> Iterator[Trial]:
    """Yield points that differ by network, store, devices per worker and batch."""
    for number in range(count):
        place, network = divmod(number, len(_NETWORKS))
        place, store = divmod(place, len(_STORES))
        batch, devices = divmod(place, 10)
        yield make(
            {
                "network": _NETWORKS[network],
                "kvstore": _STORES[store],
                "devices_per_worker": devices + 1,
                "devices": (devices + 1) * ranks,
                "devices_per_host": _PER_HOST * (devices + 1),
                "batch_per_device": batch + 1,
                "seed": number // 1000,
            }
        )


def simulated_record(trial: Trial, ranks: Sequence[Rank], **known: Any) -> Record:
    """Return the record of a job that did not run."""
    hosts = tuple(dict.fromkeys(rank.host for rank in ranks))
    identity = Identity(
        name=trial.name, key=trial.key, repeat=0, code_hash="0", data_manifest="", hosts=hosts
    )
    facts: dict[str, Any] = {
        "message": "",
        "emulated": False,
        "started": "",
        "elapsed_seconds": 0.0,
    } | known
    return Record(trial=trial, identity=identity, status="ok", ranks=tuple(ranks), **facts)


def _large_record(trial: Trial, windows: int, chance: np.random.Generator) -> Record:
    """Return a record with windows of about 1 s, longer with more devices."""
    seconds = chance.lognormal(0.1 * np.log2(trial.layout.devices), 0.02, (trial.workers, windows))
    return simulated_record(
        trial,
        [_rank(trial, number, one, chance) for number, one in enumerate(seconds)],
        started="2026-01-01T00:00:00+00:00",
        elapsed_seconds=float(seconds.max(axis=0).sum()),
        commands={f"worker-{n}": _command(trial) for n in range(trial.workers)},
    )


def _rank(trial: Trial, number: int, seconds: Numbers, chance: np.random.Generator) -> Rank:
    own = chance.normal(0.9, 0.01, 8)
    return Rank(
        rank=number,
        host=f"worker{number // _PER_HOST + 1}",
        process=f"worker-{number}",
        seconds=tuple(seconds.tolist()),
        ends=tuple((1.79e9 + np.cumsum(seconds)).tolist()),
        cpu_seconds=tuple((0.9 * seconds).tolist()),
        images=(trial.worker_batch * trial.measuring.steps_per_window,) * len(seconds),
        losses=tuple(np.linspace(7, 2, len(seconds)).tolist()),
        own_seconds=tuple(own.tolist()),
        input_wait=(0.0,) * len(seconds),
        run_delay=tuple((0.01 * seconds).tolist()),
        facts=_FACTS,
    )


def _command(trial: Trial) -> str:
    return (
        "OMP_NUM_THREADS=1 DMLC_ROLE=worker DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9091 "
        f"taskset -c 0 .venv/bin/python -m bench.train_imagenet --network {trial.label} "
        f"--batch-size {trial.worker_batch} --kv-store {trial.layout.kvstore} --benchmark 1"
    )


def write(folder: Path, points: int, ranks: int, windows: int) -> None:
    """Write the records of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    with (folder / RECORDS).open("w", encoding="utf-8") as file:
        for trial in trials(points, ranks):
            file.write(record.emit(_large_record(trial, windows, chance)) + "\n")


def timed(*arguments: str) -> tuple[float, float]:
    """Return the seconds and the peak memory, in MiB, of a `fab` command."""
    command = [sys.executable, "-m", "fabric", *arguments]
    began = time.perf_counter()
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(running.pid, 0)
    seconds = time.perf_counter() - began
    code = os.waitstatus_to_exitcode(status)
    if code not in {0, UNSTEADY}:
        sys.exit(f"{' '.join(command)}: expected exit status 0, got {code}")
    return seconds, used.ru_maxrss / 1024


def main() -> None:
    """Parse the command line, write a run, build its report and print the cost."""
    parser = argparse.ArgumentParser("python -m benchmarks.store", description=__doc__)
    for name, default, text in (
        ("points", 1000, "Points of the run"),
        ("ranks", 256, "Ranks per point"),
        ("windows", 100, "Windows per rank"),
    ):
        parser.add_argument(
            f"--{name}", metavar="N", type=int, default=default, help=f"{text} [%(default)s]"
        )
    parser.add_argument(
        "--folder",
        metavar="DIR",
        type=Path,
        help="Keep the run in this folder, and reuse it if it exists [a temporary folder]",
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch) / "large"
        if not (folder / RECORDS).exists():
            write(folder, asked.points, asked.ranks, asked.windows)
        _print_size(RECORDS, folder / RECORDS)
        for task, *more in (("report.show",), ("report.explain",), _PREDICT, ("report.build",)):
            seconds, memory = timed(task, "--run", f"{folder}/", *more)
            print(f"{task:14} {seconds:6.1f} s {memory:6.0f} MiB")
        for path in sorted((folder / REPORT).iterdir()):
            _print_size(path.name, path)


def _print_size(name: str, path: Path) -> None:
    print(f"{name:14} {path.stat().st_size / 1e6:8.1f} MB")


if __name__ == "__main__":
    main()
