"""Faults of real training: MXNet would wait forever, the controller does not."""

import os
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import launch.remote.agent
from bench.events import Event
from launch.hosts import Host, this_machine
from launch.job.monitor import Deadlines
from launch.remote.agent import free_port
from results.record import Record
from tests.support.programs.jobs import disturbed, left_over, measured, pid_of, running, tiny
from tests.support.repeats import slow

pytestmark = pytest.mark.mxnet
# Slow ones: tests/system/jobs/test_faults.py has their verdicts of simulated jobs.
HERE = this_machine().name
ENDLESS: dict[str, Any] = {"kvstore": "dist_sync", "devices": 2, "windows": 100_000}
# An interpreter that changes the training job before it runs the module it is asked for.
PYTHON = """#!{python}
import os, runpy, sys

sys.argv = sys.argv[2:]
if sys.argv[0] == "bench.train_imagenet":
    import bench.training.loop as training
    measure, train = training.time_window, training.train
{change}
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
FAULTY = """
    def faulty(worker, batches, steps, index, before):
        if worker.rank == 1 and index == 2:
            print("about to fail", file=sys.stderr, flush=True)
            {act}
        return measure(worker, batches, steps, index, before)

    training.time_window = faulty
"""
SHORTER = """
    import dataclasses, pathlib

    def shorter(options, *more):
        try:
            pathlib.Path({mark!r}).touch(exist_ok=False)
        except FileExistsError:
            return train(options, *more)
        return train(dataclasses.replace(options, windows=2), *more)

    training.train = shorter
"""


def machine(folder: Path, program: str) -> Host:
    """Return this machine with that program as its Python."""
    path = folder / "python"
    path.write_text(program)
    path.chmod(0o755)
    return replace(this_machine(), python=str(path))


def ended(folder: Path, host: Host, **fields: Any) -> tuple[Record, float]:
    """Return the record of a job of two workers and the seconds since its last window."""
    trial, last = tiny(kvstore="dist_sync", devices=2, servers_per_host=1, **fields), 0.0
    with running(folder / "run", trial, deadlines=Deadlines(), hosts=(host,)) as updates:
        for update in updates:
            if isinstance(update, Event) and update.kind == "window":
                last = time.monotonic()
            if isinstance(update, Record):
                return update, time.monotonic() - last
    raise AssertionError("no record")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("raise ValueError('no such luck')", "exited with code 1: no such luck; last log lines: "),
        *slow(
            ("sys.exit(3)", "exited with code 3: sys.exit(3); last log lines: about to fail"),
            ("os._exit(0)", "exited early, after 2 windows; last log lines: about to fail"),
        ),
    ],
)
def test_a_real_worker_that_leaves_fails_the_point_at_once(
    tmp_path: Path, act: str, said: str
) -> None:
    program = PYTHON.format(python=sys.executable, change=FAULTY.format(act=act))
    record, seconds = ended(tmp_path, machine(tmp_path, program), windows=8)
    assert record.status == "failed"
    worker = next(rank.process for rank in record.ranks if rank.rank == 1).replace("-", " ")
    assert f"{worker} (rank 1) on {HERE} {said}" in record.message
    assert seconds < 1.0
    assert left_over() == []


@pytest.mark.slow
def test_a_real_worker_that_trains_less_than_the_others_fails_the_point(tmp_path: Path) -> None:
    change = SHORTER.format(mark=str(tmp_path / "mark"))
    program = PYTHON.format(python=sys.executable, change=change)
    record, seconds = ended(tmp_path, machine(tmp_path, program), windows=8, budget_seconds=0.0)
    assert record.status == "failed"
    assert "failed: done after 3 of 9 windows" in record.message
    assert seconds < 1.0
    assert left_over() == []


@pytest.mark.parametrize("role", ["server", *slow("worker", "scheduler")])
def test_a_killed_process_of_a_real_job_fails_the_point_at_once(tmp_path: Path, role: str) -> None:
    trial = tiny(**ENDLESS | {"devices": 1 if role == "server" else 2}, servers_per_host=1)
    with running(tmp_path, trial, deadlines=Deadlines()) as updates:
        record, seconds = disturbed(updates, lambda: os.kill(pid_of(role), signal.SIGKILL))
    assert record.status == "failed"
    assert record.message.startswith(f"{role} ")
    assert f" on {HERE} was killed by SIGKILL" in record.message
    assert ("(rank " in record.message) == (role == "worker")
    assert seconds < 1.0
    assert left_over() == []


@pytest.mark.parametrize("role", slow("server", "worker"))
def test_a_stopped_process_of_a_real_job_is_named(tmp_path: Path, role: str) -> None:
    patience = Deadlines(progress=2.0)
    trial = tiny(**ENDLESS | {"devices": 1 if role == "server" else 2}, servers_per_host=2)
    with running(tmp_path, trial, deadlines=patience) as updates:
        record, _ = disturbed(updates, lambda: os.kill(pid_of(role, 1), signal.SIGSTOP))
    assert record.status == "hung"
    assert f": {role} 1 " in record.message
    assert record.message.endswith(f"on {HERE}, suspended (SIGSTOP)")
    assert f"{role} 0" not in record.message
    assert left_over() == []


@pytest.mark.slow
def test_a_real_server_that_never_comes_is_named(tmp_path: Path) -> None:
    sleeping = f'[ "$DMLC_ROLE" = server ] && exec sleep 600\nexec {sys.executable} "$@"\n'
    trial, patience = tiny(kvstore="dist_sync"), Deadlines(rendezvous=12.0)
    host = machine(tmp_path, f"#!/bin/sh\n{sleeping}")
    (record,) = measured(tmp_path / "run", trial, deadlines=patience, hosts=(host,))
    assert record.status == "timeout"
    assert record.message == f"rendezvous not complete after 12 s; missing: server 0 on {HERE}"
    assert left_over() == []


@pytest.mark.slow
def test_a_port_taken_from_a_real_scheduler_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as other:

        def choose(address: str, wanted: int | None = None) -> int:
            if wanted is not None:
                return free_port(address, wanted)
            chosen.append(free_port(address) if chosen else other.getsockname()[1])
            return chosen[-1]

        monkeypatch.setattr(launch.remote.agent, "free_port", choose)
        (record,) = measured(tmp_path, tiny(kvstore="dist_sync"), deadlines=Deadlines())
    assert (record.status, len(chosen)) == ("ok", 2)


@pytest.mark.slow
def test_a_real_worker_that_diverges_fails_the_point(tmp_path: Path) -> None:
    trial = tiny(kvstore="dist_sync", devices=2, lr=1e20, windows=50)
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "failed"
    assert "smaller --lr" in record.message
    assert left_over() == []
