"""An agent dies or is suspended: its host is lost, the next job has a new agent."""

import os
import signal
import time
from pathlib import Path

import pytest

from launch.hosts import rehearse, this_machine
from launch.job.monitor import Deadlines
from launch.remote import limits
from launch.transport.line import LocalLine
from results.record import Record, RepeatStart
from tests.support.programs.jobs import agents, disturbed, left_over, running, trial, until

HERE = this_machine().name
pytestmark = pytest.mark.program


@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGTERM, "ended by SIGTERM"), (signal.SIGKILL, "its connection closed")],
)
def test_an_agent_that_is_ended_is_lost_with_its_processes(
    tmp_path: Path, number: int, why: str
) -> None:
    with running(tmp_path, trial("worker:hang@1"), trial()) as updates:
        lost, _ = disturbed(updates, lambda: os.kill(agents()[0], number))
        after = [update for update in updates if getattr(update, "status", "")]
    assert (lost.status, [record.status for record in after]) == ("lost", ["ok"])
    assert lost.message == (f"{HERE}: lost the agent ({why}); its processes ended with it")
    assert left_over() == []


def test_an_agent_that_is_held_is_lost_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AGENT_SILENCE_SECONDS", 2.5)
    monkeypatch.setattr(limits, "STOP_SECONDS", 0.5)
    monkeypatch.setattr(limits, "AGENT_CLOSE_SECONDS", 0.5)
    faulty = trial("worker:hang@1")
    with running(tmp_path, faulty, trial(), deadlines=Deadlines()) as updates:
        lost, _ = disturbed(updates, lambda: os.kill(agents()[0], signal.SIGSTOP))
        after = [update for update in updates if getattr(update, "status", "")]
    assert (lost.status, [record.status for record in after]) == ("lost", ["ok"])
    assert lost.message.startswith(f"{HERE}: no heartbeat from the agent for 2 s: ")
    assert left_over() == []


def test_the_agent_of_a_host_that_a_point_does_not_use_fails_no_point(tmp_path: Path) -> None:
    both, one = trial(devices_per_host=1), trial("worker:exit@2", devices=1, devices_per_host=1)
    statuses = []
    with running(tmp_path, both, one, repeats=2, hosts=rehearse(2, 1)) as updates:
        for update in updates:
            if isinstance(update, Record):
                statuses.append(update.status)
            elif isinstance(update, RepeatStart) and update.number == 2:
                os.kill(max(agents()), signal.SIGKILL)
    assert statuses == ["ok", "failed", "ok", "failed"]
    assert left_over() == []


@pytest.mark.slow
def test_a_master_that_was_held_finds_the_job_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold_beats() -> None:
        """Imitate SIGSTOP of a controller for longer than its agents wait."""
        with monkeypatch.context() as held:
            held.setattr(LocalLine, "write", lambda *_: None)
            time.sleep(7.0)

    with running(tmp_path, trial("worker:hang@1"), trial()) as updates:
        # agents end everything after five seconds without a word
        lost, _ = disturbed(updates, hold_beats)
        after = [update for update in updates if isinstance(update, Record)]
    assert (lost.status, [record.status for record in after]) == ("lost", ["ok"])
    assert "no message from the controller for 5 s" in lost.message


def test_an_agent_that_dies_between_two_jobs_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path, trial(), trial(lr=0.5)) as updates:
        statuses = []
        for update in updates:
            if isinstance(update, Record):
                statuses.append(update.status)
                os.kill(agents()[0], signal.SIGKILL)
                assert until(lambda: left_over() == [], 5)
                time.sleep(0.2)  # its channel is read by another thread
    assert statuses == ["ok", "ok"]
