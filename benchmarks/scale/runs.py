"""Runs with artificial times: any number of points, ranks, windows and logs."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bench.events import Event, emit
from bench.settings.parts import MOST_DEVICES
from bench.statistics.confidence import Numbers
from bench.sweep import load_sweep
from bench.trial import Trial, make
from launch.hosts import ROOT
from launch.setup import local_setup
from launch.sweep import points as planned_runs
from results import record
from results.record import Identity, Rank, Record
from results.run_folder import EVENTS, HOSTS, RECORDED, RECORDS, job_logs
from tasks.report import UNSTEADY

_NETWORKS = ("alexnet", "inception-v3", "resnet", "vgg", "mobilenet")
_STORES = ("dist_sync", "dist_device_sync")
_DEVICES = (1, 2, 4, 8, 16)
_READY = {"devices": 1, "arrays": 16, "mxnet": "1.9.1", "tf32": False}
_READY |= {"instructions": "avx512_core", "variables": {"OMP_NUM_THREADS": "1"}}
_DONE = {"weight_hash": "9acf1fb4961f5aff", "peak_memory_bytes": 1139396608, "python": "3.11.7"}
_PER_HOST = 16
# Windows of a worker in its log, so that a file has 2 kB on average.
LOGGED_WINDOWS = 20
_OUTPUT = "[INFO] Epoch[0] Batch [{}]\tSpeed: 12.5 samples/sec\taccuracy=0.012500\n"
_PRINTED_LINES = 6


Trials = Callable[[int, int], Iterator[Trial]]


def families(number: int, ranks: int) -> Iterator[Trial]:
    """Yield points that differ by network, store, devices per worker and batch."""
    allowed = [devices for devices in _DEVICES if devices * ranks <= MOST_DEVICES]
    kinds = list(product(allowed, _STORES, _NETWORKS))
    for place in range(number):
        batch, kind = divmod(place, len(kinds))
        devices, store, network = kinds[kind]
        yield _trial(network, store, devices, ranks, batch + 1)


def one_family(number: int, ranks: int) -> Iterator[Trial]:
    """Yield points of one network that differ by store and devices only."""
    for place in range(number):
        devices, store = divmod(place, len(_STORES))
        yield _trial(_NETWORKS[0], _STORES[store], devices + 1, ranks, batch=1)


def _trial(network: str, store: str, devices: int, ranks: int, batch: int) -> Trial:
    return make(
        {
            "network": network,
            "kvstore": store,
            "devices_per_worker": devices,
            "devices": devices * ranks,
            "devices_per_host": min(ranks, _PER_HOST) * devices,
            "batch_per_device": batch,
        }
    )


def simulated_record(trial: Trial, ranks: Sequence[Rank], **known: Any) -> Record:
    """Return the record of a job that did not run."""
    hosts = tuple(dict.fromkeys(rank.host for rank in ranks))
    identity = Identity(
        name=trial.name, key=trial.key, repeat=0, code_hash="0", data_manifest="", hosts=hosts
    )
    facts: dict[str, Any] = {
        "identity": identity,
        "message": "",
        "emulated": False,
        "started": "",
        "elapsed_seconds": 0.0,
    } | known
    return Record(trial=trial, status="ok", ranks=tuple(ranks), **facts)


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
    ready = {"num_workers": trial.workers, "worker_batch": trial.worker_batch} | _READY
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
        facts=ready | _DONE,
    )


def _command(trial: Trial) -> str:
    return (
        "OMP_NUM_THREADS=1 DMLC_ROLE=worker DMLC_PS_ROOT_URI=10.0.0.1 DMLC_PS_ROOT_PORT=9091 "
        f"taskset -c 0 .venv/bin/python -m bench.train_imagenet --network {trial.label} "
        f"--batch-size {trial.worker_batch} --kv-store {trial.layout.kvstore} --benchmark 1"
    )


def write_run(folder: Path, trials: Iterator[Trial], windows: int, logs: bool = False) -> None:
    """Write a run of these points, with the logs of their processes if asked."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    part = folder / f"{RECORDS}.part"
    with part.open("w", encoding="utf-8") as file:
        for trial in trials:
            one = _large_record(trial, windows, chance)
            file.write(record.emit(one) + "\n")
            if logs:
                _write_logs(folder, one)
    part.replace(folder / RECORDS)  # so that an interrupted run is written again


def _write_logs(folder: Path, one: Record) -> None:
    """Write output and events of each worker, and the output of a server beside it."""
    below = job_logs(folder, one.identity.key, one.identity.repeat)
    below.mkdir(parents=True, exist_ok=True)
    hosts = {rank.process: rank.host for rank in one.ranks}
    (below / HOSTS).write_text(json.dumps(hosts), encoding="utf-8")
    (below / RECORDED).write_text(json.dumps({"started": one.started}), encoding="utf-8")
    printed = "".join(_OUTPUT.format(line) for line in range(_PRINTED_LINES))
    for rank in one.ranks:
        (below / f"{rank.process}.log").write_text(printed, encoding="utf-8")
        (below / f"server-{rank.rank}.log").write_text(f"server {rank.rank}\n", encoding="utf-8")
        events = "".join(f"{emit(event)}\n" for event in _events(rank))
        (below / f"{rank.process}{EVENTS}").write_text(events, encoding="utf-8")


def _events(rank: Rank) -> Iterator[Event]:
    """Yield the events of a worker, the first windows only."""
    ready = {name: one for name, one in rank.facts.items() if name not in _DONE}
    yield Event("ready", rank.rank, ready)
    for index in range(min(len(rank.seconds), LOGGED_WINDOWS)):
        values = {
            "index": index,
            "seconds": rank.seconds[index],
            "end": rank.ends[index],
            "cpu_seconds": rank.cpu_seconds[index],
            "images": rank.images[index],
            "loss": rank.losses[index],
            "input_wait": rank.input_wait[index],
            "run_delay": rank.run_delay[index],
        }
        yield Event("window", rank.rank, values)
    yield Event("done", rank.rank, _DONE | {"own_seconds": list(rank.own_seconds)})


# A sweep of 256 workers per point, and one small point more.
_SWEEP = """repeats = 1
engine = "fake"
precision = 0.0
windows = 3

[[points]]
network = {networks}
kvstore = {stores}
devices = 256
devices_per_host = 256
batch_per_device = {batches}

[[points]]
network = "alexnet"
kvstore = "local"
devices = 1
devices_per_host = 256
batch_per_device = 1
"""
_STATUS = b'"status": '


def write_unfinished(folder: Path, measured: Path) -> Path:
    """Write a run that lacks the last point of its sweep; return the sweep's file.

    Its records are those of the run `measured`, with the identities that this checkout gives to
    the points of the sweep.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (measured / RECORDS).open("rb") as lines:
        number = sum(1 for _ in lines)
    file = folder.with_suffix(".toml")
    batches = list(range(1, number // (len(_NETWORKS) * len(_STORES)) + 1))
    text = _SWEEP.format(networks=list(_NETWORKS), stores=list(_STORES), batches=batches)
    file.write_text(text.replace("'", '"'), encoding="utf-8")
    what = load_sweep(str(file))
    runs = planned_runs(what, local_setup(what))[:-1]
    with (measured / RECORDS).open("rb") as lines, (folder / RECORDS).open("wb") as to:
        for (trial, identity), line in zip(runs, lines, strict=False):
            to.write(_header(trial, identity) + line[line.index(_STATUS) :])
    return file


def _header(trial: Trial, identity: Identity) -> bytes:
    """Return the line of a record up to its status."""
    line = record.emit(simulated_record(trial, (), identity=identity)).encode()
    return line[: line.index(_STATUS)]


def timed(*arguments: str) -> tuple[float, float]:
    """Return the seconds and the peak memory, in MiB, of a `fab` command."""
    command = [sys.executable, "-m", "fabric", *arguments]
    began = time.perf_counter()
    null = subprocess.DEVNULL
    running = subprocess.Popen(command, cwd=ROOT, stdout=null, stderr=null)
    _, status, used = os.wait4(running.pid, 0)
    seconds = time.perf_counter() - began
    if (code := os.waitstatus_to_exitcode(status)) not in {0, UNSTEADY}:
        sys.exit(f"{' '.join(command)}: expected exit status 0, got {code}")
    return seconds, used.ru_maxrss / 1024
