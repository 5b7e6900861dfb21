"""Failures from outside a trial are retried at once; its own mistakes are not."""

import signal
from contextlib import closing
from pathlib import Path

import pytest

from bench.sweep import Sweep
from bench.trial import Trial
from launch.hosts import this_machine
from launch.job.monitor import exit_cause
from launch.sweep import ClusterSetup, points, sweep
from results.record import TRANSIENT_CAUSES, Cause, Record
from results.run import load
from results.store import Store
from tests.support.programs.jobs import SHORT, trial


def tried(folder: Path, one: Trial, retries: int) -> list[Record]:
    """Return the records of a sweep of one point."""
    what = Sweep(name="t", description="", repeats=1, trials=(one,), text="")
    where = ClusterSetup(hosts=(this_machine(),), deadlines=SHORT, retries=retries)
    store = Store(folder)
    with closing(store), closing(sweep(what, points(what, where), where, store)) as updates:
        return [update for update in updates if isinstance(update, Record)]


@pytest.mark.program
def test_a_killed_worker_is_retried_and_its_first_try_is_kept(tmp_path: Path) -> None:
    first, second = tried(tmp_path, trial("worker-1:kill@2:first"), retries=3)
    assert (first.status, second.status) == ("failed", "ok")
    assert first.failure is not None
    (process,) = first.failure.processes
    assert first.failure.cause == Cause.KILLED
    assert (process.process, process.window, process.windows) == ("worker-1", 3, 4)
    assert process.pid
    assert second.failure is None
    run = load(tmp_path)
    assert [one.failure for one in run.earlier] == [first.failure]
    assert run.complete


@pytest.mark.program
def test_a_loss_that_is_not_a_number_is_not_retried_at_once(tmp_path: Path) -> None:
    bad = trial("worker-0:nan@1:first", devices=1, kvstore="local")
    (record,) = tried(tmp_path, bad, retries=3)
    assert record.failure is not None
    assert record.failure.cause == Cause.EXITED
    (again,) = tried(tmp_path, bad, retries=0)  # a fault of the first try only
    assert again.status == "ok"


@pytest.mark.parametrize(
    ("number", "oom", "cause", "retried"),
    [
        (None, None, Cause.EXITED, False),
        (signal.SIGKILL, False, Cause.KILLED, True),
        (signal.SIGKILL, None, Cause.KILLED, True),
        (signal.SIGKILL, True, Cause.MEMORY, False),
        (signal.SIGTERM, None, Cause.KILLED, True),
        (signal.SIGSEGV, None, Cause.CRASHED, False),
    ],
)
def test_the_cause_of_an_exit_decides_whether_it_is_retried(
    number: int | None, oom: bool | None, cause: Cause, retried: bool
) -> None:
    assert exit_cause(number, oom) == cause
    assert (cause in TRANSIENT_CAUSES) == retried
