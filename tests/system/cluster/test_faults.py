"""Faults on a cluster: each is reported in time with its host and cause."""

import re
import time
from pathlib import Path

import pytest

from bench.trial import Trial
from launch.job.monitor import Deadlines
from launch.practice.cluster import Cluster, cut, inside, mend
from launch.remote import limits
from results.record import Record
from tests.support.hosts.clusters import empty_within, fault, pid_on, running_on
from tests.support.programs.jobs import disturbed, trial

pytestmark = pytest.mark.cluster


def over_hosts(*faults: str) -> Trial:
    """Return a long job of four hosts with a worker and a server each."""
    return trial(*faults, devices=4, devices_per_host=1, windows=12, fake_seconds=[0.4])


FAILURES = {
    "worker-2:kill@1": r"worker 2 \(rank \d\) on node03 was killed by SIGKILL",
    "server-1:kill": "server 1 on node02 was killed by SIGKILL",
    "scheduler:kill": "scheduler 0 on node01 was killed by SIGKILL",
    "worker-3:raise@1": r"worker 3 \(rank \d\) on node04 exited with code 1: scripted fault",
}


def test_a_process_that_fails_is_named_and_the_sweep_goes_on(
    practice: Cluster, tmp_path: Path
) -> None:
    with running_on(practice, tmp_path, *map(over_hosts, FAILURES), over_hosts()) as updates:
        records = [update for update in updates if isinstance(update, Record)]
    assert [record.status for record in records] == ["failed"] * len(FAILURES) + ["ok"]
    for record, said in zip(records, FAILURES.values(), strict=False):
        assert re.search(said, record.message)
    assert empty_within(practice, 3.0)


def test_an_agent_that_is_killed_is_told_within_a_second(practice: Cluster, tmp_path: Path) -> None:
    def kill() -> None:
        pid = pid_on(practice, "node03", "exec(__import__(")
        inside(practice, "node03", ["kill", "-KILL", pid])

    lost, seconds, after = fault(practice, tmp_path, over_hosts("worker:hang@1"), kill)
    assert (lost.status, [record.status for record in after]) == ("lost", ["ok"])
    assert "node03: lost the agent" in lost.message
    assert seconds < 1.5  # of which finding the agent by ps takes a part
    assert empty_within(practice, 3.0)


def test_an_ssh_server_that_is_killed_is_told_within_a_second(
    practice: Cluster, tmp_path: Path
) -> None:
    def kill() -> None:
        inside(practice, "node02", ["pkill", "-KILL", "-f", "sshd: bench"], user="root")

    lost, seconds, after = fault(practice, tmp_path, over_hosts("worker:hang@1"), kill)
    assert (lost.status, [record.status for record in after]) == ("lost", ["ok"])
    assert "node02: lost the agent" in lost.message
    assert seconds < 1.5
    assert empty_within(practice, 8.0)


def test_a_link_that_is_cut_is_told_within_eight_seconds(practice: Cluster, tmp_path: Path) -> None:
    endless = over_hosts("worker:hang@1")
    with running_on(practice, tmp_path, endless, deadlines=Deadlines()) as updates:
        lost, seconds = disturbed(updates, lambda: cut(practice, "node03"))
    try:
        assert lost.status == "lost"
        assert "node03: no heartbeat from the agent for 6 s" in lost.message
        assert seconds < 8.5
        assert empty_within(practice, 10.0)  # the cut host too
    finally:
        mend(practice, "node03")


def test_a_worker_that_is_held_is_told_as_such(practice: Cluster, tmp_path: Path) -> None:
    with running_on(practice, tmp_path, over_hosts("worker-2:stop@1")) as updates:
        records = [update for update in updates if isinstance(update, Record)]
    assert records[0].status == "hung"
    held = r"worker 2 \(rank \d\) on node03, suspended \(SIGSTOP\)"
    assert re.search(held, records[0].message)
    assert empty_within(practice, 3.0)


@pytest.mark.slow
def test_a_host_that_is_lost_between_points_costs_only_points_that_need_it(
    practice: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AGENT_SILENCE_SECONDS", 3.0)
    monkeypatch.setattr(limits, "CONNECT_SECONDS", 4.0)
    one = trial("worker:hang@1", devices=1, devices_per_host=1)
    both, last = over_hosts(), trial(devices=1, devices_per_host=1, lr=0.5)
    deadlines = Deadlines(progress=4, progress_factor=1)
    cut_at = None
    with running_on(practice, tmp_path, one, both, last, deadlines=deadlines) as updates:
        records = []
        for update in updates:
            if cut_at is None:
                cut_at = time.monotonic()
                cut(practice, "node04")
            if isinstance(update, Record):
                records.append(update)
                mend(practice, "node04") if len(records) == 2 else None
    assert [record.status for record in records] == ["hung", "lost", "ok"]
    assert records[1].message.startswith("node04: ")
    assert records[1].elapsed_seconds < 13
    assert empty_within(practice, 10.0)
