"""Use of CPU and GPU by processes; devices that idle while others work."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.events import Event
from bench.notes import texts
from launch.hosts import pretend
from launch.job.monitor import Deadlines, JobMonitor, Utilization, cpu_share, gpu_shares, idle
from launch.job.plan import plan
from launch.job.progress import job_progress
from launch.job.validity import judge
from launch.remote.telemetry import Gpus
from tests.support.hosts.agents import Talk
from tests.support.hosts.host_reports import smi
from tests.support.programs.jobs import measured, trial


@pytest.fixture
def talk() -> Iterator[Talk]:
    one = Talk()
    yield one
    one.channel.close()


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ({"a": 0.9, "b": 0.8, "c": 0.02}, ["c"]),
        ({"a": 0.9, "b": 0.8, "c": 0.06}, []),
        # a minority that works is the slowest, for which the others wait
        ({"a": 0.9, "b": 0.02, "c": 0.02}, []),
        ({"a": 0.9, "b": 0.02}, []),
        ({"a": 0.9, "b": 0.4, "c": 0.02}, []),
        ({"a": 0.01, "b": 0.01, "c": 0.01}, []),
        ({"a": 0.6, "b": 0.7, "c": 0.8, "d": 0.0, "e": 0.0}, ["d", "e"]),
        ({}, []),
    ],
)
def test_only_a_minority_idles_while_others_work(
    shares: dict[str, float], named: list[str]
) -> None:
    assert idle(shares) == named


def test_use_is_a_share_of_the_cores_between_two_beats() -> None:
    uses = [Utilization(at=10.0, cpu_seconds=5.0), Utilization(at=12.0, cpu_seconds=8.0)]
    assert cpu_share(uses, 2) == pytest.approx(0.75)
    assert cpu_share(uses, 0) == pytest.approx(1.5)
    assert cpu_share(uses[:1], 1) is None
    busy = [
        Utilization(at=1.0, cpu_seconds=0.0, gpus=gpus) for gpus in ((), (0.5, 0.0), (0.7, 0.0))
    ]
    assert gpu_shares(busy) == pytest.approx((0.6, 0.0))


def three(**fields: Any) -> JobMonitor:
    """Return a job of three workers on a host each, rendezvous after two seconds."""
    what = trial(devices=3, devices_per_host=1, **fields)
    monitor = JobMonitor(plan(what, pretend(3, 1), 1), Deadlines(), 0.0)
    for rank in range(3):
        facts = {"num_workers": 3, "worker_batch": 4}
        monitor.take_event(f"worker-{rank}", Event(kind="ready", rank=rank, values=facts), 2.0)
    return monitor


def work(
    monitor: JobMonitor, seconds: int, *shares: float, gpus: tuple[tuple[float, ...], ...] = ()
) -> None:
    for rank, share in enumerate(shares):
        busy = gpus[rank] if gpus else ()
        for at in range(seconds + 1):
            use = Utilization(at=100.0 * rank + at, cpu_seconds=50 + share * at, gpus=busy)
            monitor.take_utilization(f"worker-{rank}", use)


def test_a_worker_that_idles_for_more_than_ten_seconds_is_named_once() -> None:
    monitor = three()
    work(monitor, 9, 0.9, 0.9, 0.01)
    assert job_progress(monitor, 12.0).idle == ""
    work(monitor, 11, 0.9, 0.9, 0.01)
    said = "worker 2 (rank 2) on host03: idle while others work"
    assert job_progress(monitor, 14.0).idle == said
    work(monitor, 11, 0.01, 0.9, 0.9)
    assert job_progress(monitor, 26.0).idle == said


def test_an_idle_worker_stands_in_the_record_of_a_job_that_ended_well() -> None:
    monitor = three(windows=1)
    work(monitor, 11, 0.9, 0.9, 0.01)
    seen = job_progress(monitor, 14.0)
    for rank in range(3):
        for _ in range(2):
            window = {"seconds": 0.1, "end": 1.0, "images": 4}
            monitor.take_event(
                f"worker-{rank}", Event(kind="window", rank=rank, values=window), 15.0
            )
    verdict = judge(trial(devices=3, windows=1), monitor.workers, monitor.idle)
    assert (verdict.status, texts(verdict.notes)) == ("ok", [seen.idle])


def test_who_is_done_is_not_idle_and_start_up_is_no_work() -> None:
    monitor = three()
    work(monitor, 11, 0.9, 0.9, 0.01)
    monitor.take_event("worker-2", Event(kind="done", rank=2, values={}), 13.0)
    assert job_progress(monitor, 14.0).idle == ""
    fresh = JobMonitor(plan(trial(devices=3), pretend(1, 3), 1), Deadlines(), 0.0)
    work(fresh, 11, 0.9, 0.9, 0.01)
    assert job_progress(fresh, 14.0).idle == ""


def test_a_gpu_that_idles_is_named_by_its_number() -> None:
    monitor = three()
    work(monitor, 11, 0.9, 0.9, 0.9, gpus=((0.9, 0.9), (0.9, 0.01), (0.9, 0.9)))
    seen = job_progress(monitor, 14.0)
    assert seen.idle == "GPU 1 of worker 1 (rank 1) on host02: idle while others work"
    assert [one.gpu for one in seen.workers] == pytest.approx([0.9, 0.455, 0.9])


@pytest.mark.program
def test_the_processes_of_a_rehearsal_all_sleep_and_none_is_called_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launch.job.monitor.IDLE_SECONDS", 2.0)
    what = trial("worker-2:hang@1", devices=3)
    deadlines = Deadlines(progress=4, progress_factor=1)
    (one,) = measured(tmp_path, what, deadlines=deadlines)
    assert one.status == "hung"
    assert "idle" not in one.message
    assert one.notes == ()


@pytest.mark.program
def test_beats_tell_how_many_cpu_seconds_a_process_has_used(talk: Talk) -> None:
    talk.start("works", "import time\nwhile time.process_time() < 1: pass\ntime.sleep(60)")
    talk.start("sleeps", "import time; time.sleep(60)")
    deadline, cpu = time.monotonic() + 20, {"works": 0.0}
    times = []
    while cpu["works"] < 0.95 and time.monotonic() < deadline:
        values = talk.until("beat")[-1][1]
        cpu = values["cpu"] or cpu
        times.append(values["at"])
    assert cpu["works"] == pytest.approx(1.0, abs=0.2)
    assert cpu["sleeps"] < 0.5
    assert times == sorted(set(times))


@pytest.mark.program
def test_beats_have_the_run_delay_of_servers_alone(talk: Talk) -> None:
    talk.start("worker-0", "import time; time.sleep(60)")
    argv = [sys.executable, "-c", "while True: pass"]
    server = {"id": "server-0", "argv": argv, "env": {}, "cwd": "/", "cores": [], "bare": True}
    talk.channel.send({"do": "start", **server})
    beats = [talk.until("beat")[-1][1] for _ in range(3)]
    found = [beat["delay"] for beat in beats if "server-0" in beat["cpu"]]
    assert all(delay.keys() == {"server-0"} for delay in found)
    assert 0 <= found[0]["server-0"] <= found[-1]["server-0"]


@pytest.mark.program
def test_gpus_are_looked_at_where_a_process_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = (
        "echo '0, 97, 310.5, 61, 1485, 1980'; echo '1, [N/A], 40.0'; echo '2, 4, 50.0'; "
        "echo x >>$0.asked"
    )
    smi(tmp_path, monkeypatch, f"{asked}; else echo {os.getpid()}; echo 4194305; echo N/A")
    one = Talk()
    try:
        one.start("w", "import time; time.sleep(60)")
        assert one.until("beat")[-1][1]["gpu"] == {}
        assert not (tmp_path / "nvidia-smi.asked").exists()
        argv = [sys.executable, "-c", "import time; time.sleep(60)"]
        start = {"id": "g", "argv": argv, "env": {}, "cwd": "/", "cores": [], "gpus": [0, 2]}
        one.channel.send({"do": "start", **start})
        seen = [one.until("beat")[-1][1] for _ in range(4)]
    finally:
        one.channel.close()
    assert seen[-1]["gpu"] == {"0": 0.97, "2": 0.04}
    # this process is not the agent's; the other is none of this machine
    assert seen[-1]["machine"]["gpu_programs"] == [os.getpid()]
    assert "x" in (tmp_path / "nvidia-smi.asked").read_text()
    assert 0.0 < seen[-1]["gpu_at"] < seen[-1]["at"]
    assert (seen[-1]["gpu_temperature"], seen[-1]["gpu_clock"]) == ({"0": 61.0}, {"0": 0.75})


@pytest.mark.program
@pytest.mark.parametrize("body", ["exit 9", "echo nonsense", "exec sleep 60"])
def test_a_driver_that_fails_or_hangs_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    smi(tmp_path, monkeypatch, body)
    gpus, began = Gpus(), time.monotonic()
    for now in (0.0, 1.0, 6.0, 7.0, 8.0, 20.0, 22.0, 23.0):
        assert gpus.beat(now)["gpu"] == {}
        time.sleep(0.05)
    assert time.monotonic() - began < 2.0


def test_a_host_without_gpus_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert not any(Gpus().beat(1.0).values())
