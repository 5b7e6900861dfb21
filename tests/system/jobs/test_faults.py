"""Each fault names host, role and rank, and fails only its point."""

import os
import signal
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import launch.job.agents
import launch.job.monitor
import launch.remote.agent
from bench.engines.faults import KINDS
from bench.errors import SpecError
from bench.events import Event
from launch.hosts import rehearse, this_machine
from launch.job.agents import Agents
from launch.job.monitor import JobMonitor
from launch.job.plan import plan
from launch.job.run import run_job
from launch.remote.agent import free_port
from results.record import Record
from tests.support.programs.jobs import (
    MARK,
    SHORT,
    agents,
    disturbed,
    left_over,
    measured,
    pid_of,
    running,
    trial,
)
from tests.support.repeats import slow

HERE = this_machine().name


FAULTS = {
    "worker-1:kill@2": "worker 1 (rank {rank}) on {host} was killed by SIGKILL",
    "worker-1:exit@1": "worker 1 (rank {rank}) on {host} exited with code 3: scripted exit",
    "worker-1:raise@2": "worker 1 (rank {rank}) on {host} exited with code 1: scripted fault",
    "worker-1:early@2": "worker 1 (rank {rank}) on {host} exited early, after 2 windows",
    "worker-1:nan@1": "exited with code 1: the loss is nan after 1 window",
    "server-1:kill": "server 1 on {host} was killed by SIGKILL",
    "server-1:exit": "server 1 on {host} exited with code 3: scripted exit",
    "server-1:raise": "server 1 on {host} exited with code 1: scripted fault",
    "scheduler:kill": "scheduler 0 on {host} was killed by SIGKILL",
    "scheduler:exit": "scheduler 0 on {host} exited with code 3: scripted exit",
    "worker-1:hash": "ranks 0 and 1 ended with different weights",
    "worker-1:alone": "worker 1 (rank 0) on {host}: expected a job of 2 workers, got 1",
    "worker-1:mute": "worker 1 on {host} exited before it reported a rank",
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """Return the records of a sweep: one point per fault, then one without."""
    points = [*(trial(fault) for fault in FAULTS), trial()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, "faulty")
        found = measured(tmp_path_factory.mktemp("faulty"), *points)
        assert left_over() == []
    return dict(zip([*FAULTS, "none"], found, strict=True))


@pytest.mark.program
@pytest.mark.parametrize(("fault", "said"), FAULTS.items())
def test_a_fault_fails_the_point_and_names_itself(
    faulty: dict[str, Record], fault: str, said: str
) -> None:
    record = faulty[fault]
    ranks = {rank.process: rank.rank for rank in record.ranks}
    assert record.status == "failed"
    assert said.format(host=HERE, rank=ranks.get("worker-1")) in record.message
    assert "\n" not in record.message


@pytest.mark.program
def test_faults_fail_no_point_that_follows(faulty: dict[str, Record]) -> None:
    assert faulty["none"].status == "ok"


@pytest.mark.program
def test_the_message_ends_with_the_last_lines_of_the_log(faulty: dict[str, Record]) -> None:
    record = faulty["worker-1:raise@2"]
    rank = next(one.rank for one in record.ranks if one.process == "worker-1")
    assert record.message.endswith(
        f"; last log lines: rank {rank} window 0 | rank {rank} window 1 | "
        f"RuntimeError: scripted fault"
    )


@pytest.mark.program
@pytest.mark.parametrize("fault", ["worker-1:kill@1", *slow("server-0:kill", "scheduler:kill")])
def test_every_process_is_gone_within_a_second_of_the_first_bad_exit(
    tmp_path: Path, fault: str
) -> None:
    # All but the faulty one would go on for ever.
    faults = (fault, "worker-0:hang@1", "worker-1:hang@2")
    processes = plan(trial(*faults), [this_machine()], free_port("127.0.0.1"))
    with closing(Agents()) as kept:
        watch = JobMonitor(processes, SHORT, time.monotonic())
        heard = 0.0  # the last word of anyone, before or just after the death
        for said in run_job(watch, kept, tmp_path):
            heard = time.monotonic() if isinstance(said, Event) else heard
        assert 0.0 < heard < time.monotonic() < heard + 1.0
        assert len(left_over()) == len(agents()) == 1  # it stays for the next job
    assert left_over() == []


@pytest.mark.program
@pytest.mark.parametrize(
    ("fault", "missing"),
    [
        ("server-0:absent", "missing: server 0 on {host}"),
        ("worker:absent", "missing: worker 0 on {host}, worker 1 on {host}"),
        *slow(
            ("worker-1:absent", "missing: worker 1 on {host}"),
            ("scheduler:absent", "missing: scheduler 0 on {host}"),
        ),
    ],
)
def test_who_never_comes_is_waited_for_so_long_and_named(
    tmp_path: Path, fault: str, missing: str
) -> None:
    (record,) = measured(tmp_path, trial(fault))
    assert record.status == "timeout"
    said = "rendezvous not complete after 2 s; " + missing.format(host=HERE)
    assert record.message == said
    assert left_over() == []


@pytest.mark.program
@pytest.mark.parametrize("kind", ["hang", "stop"])
def test_a_rank_that_stops_making_progress_is_named(tmp_path: Path, kind: str) -> None:
    (record,) = measured(tmp_path, trial(f"worker-1:{kind}@2"))
    assert record.status == "hung"
    rank = next(one.rank for one in record.ranks if one.process == "worker-1")
    assert f"no progress for 2 s after 2 windows: worker 1 (rank {rank}) on" in record.message
    assert ("suspended (SIGSTOP)" in record.message) == (kind == "stop")
    assert "worker 0" not in record.message
    assert left_over() == []


@pytest.mark.program
def test_a_first_window_that_never_ends_has_its_own_deadline(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, trial("worker:hang@0"))
    assert record.status == "hung"
    assert "before the first window: worker 0 (rank" in record.message


@pytest.mark.program
def test_a_server_that_never_ends_is_named(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, trial("server-1:stop"))
    assert record.status == "hung"
    assert record.message == (
        f"training finished, but not all processes exited within 3 s: server 1 on {HERE}, "
        f"suspended (SIGSTOP)"
    )


@pytest.mark.program
def test_a_fault_on_another_host_names_that_host(tmp_path: Path) -> None:
    two = trial("worker-1:kill@1", devices_per_host=1)
    (record,) = measured(tmp_path, two, hosts=rehearse(2, 1))
    assert "worker 1 (rank" in record.message
    assert "on host02 was killed by SIGKILL" in record.message


@pytest.mark.program
@pytest.mark.parametrize(("taken", "status"), [(3, "ok"), (4, "failed"), *slow((1, "ok"))])
def test_a_port_that_is_taken_meanwhile_is_replaced_up_to_three_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int, status: str
) -> None:
    chosen: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as other:

        def choose(address: str, wanted: int | None = None) -> int:
            if wanted is not None:
                return free_port(address, wanted)
            chosen.append(other.getsockname()[1] if len(chosen) < taken else free_port(address))
            return chosen[-1]

        monkeypatch.setattr(launch.remote.agent, "free_port", choose)
        (record,) = measured(tmp_path, trial())
    assert len(chosen) == min(taken + 1, 4)
    assert record.status == status
    if status == "failed":
        said = f"another program took port {chosen[-1]} on 127.0.0.1 before the scheduler did: "
        assert record.message.startswith(said)
        assert "Address already in use" in record.message


@pytest.mark.program
def test_a_killed_process_found_by_its_role_is_a_process_of_this_test(tmp_path: Path) -> None:
    with running(tmp_path, trial("worker:hang@1")) as updates:
        record, seconds = disturbed(updates, lambda: os.kill(pid_of("server", 1), signal.SIGTERM))
    assert f"server 1 on {HERE} was killed by SIGTERM" in record.message
    assert seconds < 1.0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("worker-1:sing", f"ROLE: worker, server, scheduler. KIND: {', '.join(KINDS)}"),
        ("boss:kill", "expected ROLE[-INDEX]:KIND[@WINDOW]"),
        ("worker-2:kill", "a process of the job (2 workers, 2 servers, 1 scheduler)"),
        ("scheduler-1:kill", "a process of the job"),
        ("server:nan", "absent, exit, hang, kill, raise, stop, without a window, for a server"),
        ("scheduler:kill@1", "without a window, for a scheduler"),
        ("worker:kill@4", "at a window from 0 to 3"),
        (f"worker-{'9' * 5000}:kill", "expected ROLE[-INDEX]:KIND[@WINDOW]"),
        ("worker:hash@1", "at a window from 0 to 3"),
    ],
)
def test_a_fault_that_cannot_happen_is_refused(fault: str, said: str) -> None:
    with pytest.raises(SpecError, match="fault '") as caught:
        trial(fault)
    assert said in str(caught.value)


def test_servers_cannot_fail_where_there_are_none() -> None:
    local: dict[str, Any] = {"kvstore": "local", "devices": 1}
    with pytest.raises(SpecError, match=r"expected a process of the job \(1 worker\)$"):
        trial("server:kill", **local)


@pytest.mark.program
def test_a_job_says_who_has_reached_the_scheduler(tmp_path: Path) -> None:
    with running(tmp_path, trial()) as updates:
        kinds = [update.kind for update in updates if isinstance(update, Event)]
    assert kinds.count("reached") == 5
    assert kinds.count("ready") == 2
