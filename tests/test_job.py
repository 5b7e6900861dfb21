"""A job under the real agent with the fake engine: each fault is named, and nothing is left."""

import os
import resource
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.events import Event
from bench.sweep import Sweep
from bench.trial import Trial, make
from launch.errors import LaunchError
from launch.hosts import this_machine
from launch.job import run
from launch.plan import plan
from launch.ports import free_port
from launch.sweep import Where, _doubts, _note, points, sweep
from launch.watch import Deadlines, Seen, Verdict, Watch
from results.record import Record, Started
from results.store import Store

pytestmark = pytest.mark.program
SHORT = Deadlines(rendezvous=1.0, first_window=1.0, progress=1.0, progress_factor=1.5, ending=2.0)


def trial(*faults: str, **fields: Any) -> Trial:
    base = {
        "engine": "fake",
        "network": "tiny",
        "batch_per_device": 4,
        "kvstore": "dist_sync",
        "devices": 2,
        "windows": 3,
        "fake_seconds": [0.9, 0.5, 0.4, 0.5],
        "fake_faults": list(faults),
    }
    return make(base | fields)


def measured(
    folder: Path, *trials: Trial, repeats: int = 1, deadlines: Deadlines = SHORT
) -> list[Record]:
    """Records of a sweep of these trials, in the order they were made."""
    with running(folder, *trials, repeats=repeats, deadlines=deadlines) as updates:
        return [one for one in updates if isinstance(one, Record)]


@contextmanager
def running(
    folder: Path, *trials: Trial, repeats: int = 1, deadlines: Deadlines = SHORT
) -> Iterator[Generator[Started | Event | Record]]:
    """The updates of a sweep of these trials, while it runs."""
    what = Sweep(name="t", description="", repeats=repeats, trials=trials, text="")
    where = Where(hosts=(this_machine(),), deadlines=deadlines)
    store = Store(folder)
    try:
        yield sweep(what, points(what, where), where, store)
    finally:
        store.close()


MARK = f"MXSCALE_TEST={os.getpid()}"


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process that a test starts inherits a variable by which it can be found."""
    monkeypatch.setenv(*MARK.split("="))


def left_over() -> list[str]:
    """Pids of processes that a test in this process started and that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if MARK.encode() in variables.split(b"\0"):
            found.append(entry.name)
    return found


def test_a_good_job_gives_every_ranks_windows(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, trial())
    assert (record.status, record.message) == ("ok", "")
    assert [rank.rank for rank in sorted(record.ranks, key=lambda one: one.rank)] == [0, 1]
    for rank in record.ranks:
        assert rank.seconds == (0.9, 0.5, 0.4, 0.5)
        assert rank.images == (4, 4, 4, 4)
    assert set(record.commands) == {"scheduler-0", "server-0", "server-1", "worker-0", "worker-1"}
    logs = tmp_path / "logs" / record.identity.key / "0"
    assert "window 3" in (logs / "worker-1.log").read_text()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("worker-1:kill@2", "worker 1 (rank {rank}) on {host} was killed by SIGKILL"),
        ("worker-0:exit@1", "exited with code 3: scripted exit"),
        ("worker-1:raise@1", "scripted fault"),
        ("worker-1:early@2", "returned early, after 2 windows"),
        ("worker-0:nan@1", "the loss is nan after window 1"),
        ("server-1:kill", "server 1 on {host} was killed by SIGKILL"),
        ("server-0:exit", "server 0 on {host} exited with code 3: scripted exit"),
        ("scheduler:kill", "scheduler 0 on {host} was killed by SIGKILL"),
        ("worker-1:hash", "ranks ended with different weights"),
    ],
)
def test_a_fault_fails_the_point_and_names_itself(tmp_path: Path, fault: str, said: str) -> None:
    (record,) = measured(tmp_path, trial(fault))
    ranks = {rank.process: rank.rank for rank in record.ranks}
    expected = said.format(host=this_machine().name, rank=ranks.get("worker-1"))
    assert record.status == "failed"
    assert expected in record.message
    assert left_over() == []


def test_a_job_ends_within_a_second_of_the_first_bad_exit(tmp_path: Path) -> None:
    processes = plan(trial("worker-1:kill@1"), [this_machine()], free_port("127.0.0.1"))
    ready = ended = 0.0
    for update in run(processes, tmp_path, SHORT):
        if isinstance(update, Event):
            ready = time.monotonic()
        else:
            ended = time.monotonic()
    assert ready < ended < ready + 1.0


@pytest.mark.parametrize("fault", ["worker-1:absent", "scheduler:absent"])
def test_a_role_that_never_comes_is_waited_for_so_long(tmp_path: Path, fault: str) -> None:
    (record,) = measured(tmp_path, trial(fault))
    assert record.status == "timeout"
    assert "not all processes met within 1 s; a worker, a server or the scheduler" in record.message
    assert left_over() == []


def test_a_rank_that_stops_making_progress_is_named(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, trial("worker-1:hang@2"))
    assert record.status == "hung"
    assert "no progress for 1 s after window 2: worker 1 (rank" in record.message
    assert left_over() == []


def test_a_first_window_that_never_ends_has_its_own_deadline(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, trial("worker:hang@0"))
    assert record.status == "hung"
    assert "after window 0: worker 0 (rank" in record.message


def test_a_failed_point_does_not_stop_the_sweep(tmp_path: Path) -> None:
    records = measured(tmp_path, trial("worker:exit"), trial())
    assert [record.status for record in records] == ["failed", "ok"]


def test_a_sweep_started_again_runs_what_is_not_done(tmp_path: Path) -> None:
    good, bad = trial(), trial("worker:exit")
    assert len(measured(tmp_path, good, bad)) == 2
    assert [record.trial for record in measured(tmp_path, good, bad)] == [bad]
    again = measured(tmp_path, good, trial(lr=0.5), repeats=2)
    assert [(one.trial.lr, one.identity.repeat) for one in again] == [(0.5, 0), (0.01, 1), (0.5, 1)]


def test_the_screen_is_told_where_the_sweep_stands(tmp_path: Path) -> None:
    with running(tmp_path, trial(), repeats=2) as running_sweep:
        updates = list(running_sweep)
    starts = [one for one in updates if isinstance(one, Started)]
    assert [(one.number, one.total) for one in starts] == [(1, 2), (2, 2)]
    windows = [one for one in updates if isinstance(one, Event) and one.kind == "window"]
    assert len(windows) == 2 * 2 * 4


def test_a_sweep_that_is_left_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path, trial("worker:hang@1")) as updates:
        for update in updates:
            if isinstance(update, Event) and update.kind == "window":
                break
        # scheduler, servers, workers and their agent
        assert len(left_over()) == 6
        updates.close()
    assert left_over() == []


def test_jobs_without_servers_run_under_the_same_agent(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, trial(kvstore="local", devices=1))
    assert record.status == "ok"
    assert list(record.commands) == ["worker-0"]


def test_an_agent_that_is_ended_is_lost_and_says_why(tmp_path: Path) -> None:
    with running(tmp_path, trial("worker:hang@1")) as updates:
        for update in updates:
            if isinstance(update, Event) and update.kind == "window":
                agents = [pid for pid in left_over() if b"exec(" in command(pid)]
                os.kill(int(agents[0]), signal.SIGTERM)
                break
        records = [update for update in updates if isinstance(update, Record)]
    assert [record.status for record in records] == ["lost"]
    assert "its agent is gone (it was ended by SIGTERM)" in records[0].message
    assert left_over() == []


def command(pid: str) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_disk_that_fills_up_ends_the_sweep_with_one_line(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        with pytest.raises(LaunchError, match=r"cannot be written .*Nothing recorded before"):
            measured(tmp_path, trial(windows=3000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert left_over() == []


def test_servers_and_workers_of_several_hosts_may_end_in_any_order() -> None:
    processes = plan(trial(), [this_machine()], 1)
    watch = Watch(processes, Deadlines(), 0.0)
    for process in processes:
        if process.role != "worker":
            watch.exited(process.id, 0, None, 1.0)
    assert watch.verdict(2.0) is None
    late = watch.verdict(7.0)
    assert late is not None
    assert "ended before the workers were done" in late.message
    for rank, worker in enumerate(("worker-0", "worker-1")):
        watch.hear(worker, Event(kind="ready", rank=rank), 2.0)
        watch.hear(worker, Event(kind="done", rank=rank), 2.0)
        watch.exited(worker, 0, None, 2.0)
    assert watch.verdict(2.0) == Verdict(status="ok")


def test_asynchronous_workers_that_never_overlap_are_no_measurement() -> None:
    asynchronous = trial(kvstore="dist_async", windows=1)
    workers = []
    for rank, process in enumerate(plan(asynchronous, [this_machine()], 1)[-2:]):
        facts = {"num_workers": 2, "worker_batch": 4}
        ends = (1.0 + 10 * rank, 2.0 + 10 * rank)
        windows = [{"seconds": 1.0, "end": end, "images": 4} for end in ends]
        workers.append(Seen(process=process, rank=rank, facts=facts, windows=windows, done={}))
    assert list(_doubts(asynchronous, workers)) == [
        "the workers were never all in measured windows at once; ask for more windows"
    ]


@pytest.mark.parametrize(("mode", "said"), [("synthetic", "80 % of its time"), ("real", "")])
def test_a_worker_that_lacked_its_core_says_so_unless_it_may_wait_for_images(
    mode: str, said: str
) -> None:
    fields = {"network": "tiny", "batch_per_device": 4, "windows": 1}
    data = {"data_train": "x.rec"} if mode == "real" else {}
    local = make(fields | {"mode": mode} | data)
    window = {"seconds": 1.0, "cpu_seconds": 0.8, "end": 1.0, "images": 4}
    process = plan(local, [this_machine()], 1)[0]
    worker = Seen(process=process, rank=0, windows=[window, window])
    assert said in _note(local, [worker])
    assert bool(_note(local, [worker])) == bool(said)
