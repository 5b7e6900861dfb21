"""Failures from outside a trial are retried at once; its own mistakes are not."""

import re
import signal
from contextlib import closing
from pathlib import Path

import pytest

from bench.sweep import Sweep
from bench.trial import Trial
from launch.hosts import this_machine
from launch.job.monitor import exit_cause
from launch.sweep import ClusterSetup, points, sweep
from plots.failed_repeats import try_rows
from plots.page.page import page
from results.errors import StoreError
from results.integrity.archive import pack, unpack
from results.integrity.rederive import rederive_run
from results.record import TRANSIENT_CAUSES, Cause, Record
from results.run import load, logs_of_try
from results.run_folder import job_logs
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
    assert not process.silent  # it prints a line per window
    assert second.failure is None
    run = load(tmp_path)
    assert [one.failure for one in run.earlier] == [first.failure]
    assert run.complete
    (row,) = try_rows(run)
    assert (row[:3], row[5]) == (("tiny dist_sync x2", "1", "1"), "killed")
    assert "worker-1 (PID " in row[6]
    logs = job_logs(tmp_path, first.identity.key, 0)
    assert [logs_of_try(logs, n).name for n in (1, 2)] == ["try-1", "0"]
    with pytest.raises(StoreError, match="expected one of 1, 2, got 3"):
        logs_of_try(logs, 3)
    text = page(run)
    assert "Earlier tries (1), which do not count" in text
    assert '<td class="text">killed' in text


@pytest.mark.program
def test_a_run_with_two_tries_is_packed_and_verified_with_the_logs_of_both(tmp_path: Path) -> None:
    tried(tmp_path / "run", trial("worker-1:kill@2:first"), retries=1)
    assert pack(tmp_path / "run", tmp_path / "run.zip") > 0
    found = unpack(tmp_path / "run.zip", tmp_path / "again")
    _, result = rederive_run(found)
    assert (result.wrong, result.unchecked) == ([], [])
    # Two of each try; the other worker of the killed one can end before its first line.
    assert result.ranks in {3, 4}
    (events,) = found.glob("logs/*/0/try-1/worker-1.events.jsonl")
    lines = events.read_text().splitlines()
    edited = [re.sub(r'"seconds": [0-9.]+', '"seconds": 9.5', line) for line in lines]
    events.write_text("\n".join(edited) + "\n")
    assert any("events give 9.5" in one for one in rederive_run(found)[1].wrong)


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
