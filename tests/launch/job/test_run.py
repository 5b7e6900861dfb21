"""A job under the real agent with the simulated engine: results and files."""

from pathlib import Path

import pytest

from bench.events import Event
from bench.notes import Note, NoteKind, as_json, of_json
from bench.trial import make
from launch.hosts import pretend, this_machine
from launch.job.monitor import ProcessState
from launch.job.plan import plan
from launch.job.validity import data_notes, invalid_reasons, judge
from results.record import RepeatStart
from results.store import read_records
from results.worker_log import WorkerLog
from tests.support.programs.jobs import left_over, measured, running, trial

pytestmark = pytest.mark.program


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


def test_a_fixed_global_batch_is_judged_rank_by_rank(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, trial(batch_per_device=0, global_batch_fixed=9))
    assert (record.status, record.message) == ("ok", "")
    assert {rank.rank: rank.images[0] for rank in record.ranks} == {0: 5, 1: 4}
    workers = []
    for rank, process in enumerate(plan(record.trial, [this_machine()], 1)[-2:]):
        facts = {"num_workers": 2, "worker_batch": 4 + rank}
        windows = [{"seconds": 1.0, "end": 1.0, "images": 4}] * 4
        workers.append(
            ProcessState(
                process=process, log=WorkerLog(rank=rank, facts=facts, windows=windows, done={})
            )
        )
    doubts = list(invalid_reasons(record.trial, workers))
    assert [doubt.partition(": ")[2] for doubt in doubts] == [
        "expected a batch of 5, got 4",
        "expected a batch of 4, got 5",
    ]


def test_what_a_worker_doubts_of_a_network_is_told_where_there_is_one() -> None:
    said = []
    hm = as_json(Note(NoteKind.LITTLE_COMPUTING, {"megabytes": 9.0, "seconds": 0.1}))
    for per_host in (1, 2):
        what = trial(devices_per_host=per_host)
        windows = [{"seconds": 1.0, "end": 1.0, "images": 4}] * 4
        facts = {"num_workers": 2, "worker_batch": 4}
        workers = [
            ProcessState(
                process=process,
                log=WorkerLog(rank=rank, facts=facts, windows=windows, done={"notes": [hm]}),
            )
            for rank, process in enumerate(plan(what, pretend(2, per_host), 1)[-2:])
        ]
        said.append(judge(what, workers).notes)
    assert said == [(of_json(hm), of_json(hm)), ()]


def test_a_sweep_on_one_host_is_told_that_a_loss_rose() -> None:
    rose = as_json(Note(NoteKind.LOSS_ROSE, {"first": 2.3, "last": 4.5e7}))
    what = trial(devices_per_host=2)
    windows = [{"seconds": 1.0, "end": 1.0, "images": 4}] * 4
    facts = {"num_workers": 2, "worker_batch": 4}
    workers = [
        ProcessState(
            process=process,
            log=WorkerLog(rank=rank, facts=facts, windows=windows, done={"notes": told}),
        )
        for rank, process, told in zip(
            (0, 1), plan(what, pretend(1, 2), 1)[-2:], ([rose], []), strict=True
        )
    ]
    assert of_json(rose) in judge(what, workers).notes


def test_a_failed_point_does_not_stop_the_sweep(tmp_path: Path) -> None:
    records = measured(tmp_path, trial("worker:exit"), trial())
    assert [record.status for record in records] == ["failed", "ok"]


def test_the_screen_is_told_where_the_sweep_stands(tmp_path: Path) -> None:
    with running(tmp_path, trial(), repeats=2) as running_sweep:
        updates = list(running_sweep)
    starts = [one for one in updates if isinstance(one, RepeatStart)]
    assert [(one.number, one.total) for one in starts] == [(1, 2), (2, 2)]
    (first, _) = read_records(tmp_path)
    assert [one.seconds_left for one in starts] == [None, first.elapsed_seconds]
    windows = [one for one in updates if isinstance(one, Event) and one.kind == "window"]
    assert len(windows) == 2 * 2 * 4


def test_the_estimate_uses_what_an_earlier_run_of_the_sweep_took(tmp_path: Path) -> None:
    (before,) = measured(tmp_path, trial())
    with running(tmp_path, trial(), trial("worker:exit"), repeats=2) as running_sweep:
        starts = [one for one in running_sweep if isinstance(one, RepeatStart)]
    assert [one.number for one in starts] == [2, 3, 4]
    assert starts[0].seconds_left == pytest.approx(3 * before.elapsed_seconds)


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


def test_asynchronous_workers_that_never_overlap_are_no_measurement() -> None:
    asynchronous = trial(kvstore="dist_async", windows=1)
    workers = []
    for rank, process in enumerate(plan(asynchronous, [this_machine()], 1)[-2:]):
        facts = {"num_workers": 2, "worker_batch": 4}
        ends = (1.0 + 10 * rank, 2.0 + 10 * rank)
        windows = [{"seconds": 1.0, "end": end, "images": 4} for end in ends]
        workers.append(
            ProcessState(
                process=process, log=WorkerLog(rank=rank, facts=facts, windows=windows, done={})
            )
        )
    assert list(invalid_reasons(asynchronous, workers)) == [
        "the workers never measured at the same time. Increase windows"
    ]


@pytest.mark.parametrize(
    ("mode", "said"), [("synthetic", [Note(NoteKind.BUSY_BASELINE, {"share": 0.8})]), ("real", [])]
)
def test_a_worker_that_lacked_its_core_says_so_unless_it_may_wait_for_images(
    mode: str, said: list[Note]
) -> None:
    fields = {"network": "tiny", "batch_per_device": 4, "windows": 1}
    data = {"data_train": "x.rec"} if mode == "real" else {}
    local = make(fields | {"mode": mode} | data)
    window = {"seconds": 1.0, "cpu_seconds": 0.8, "end": 1.0, "images": 4}
    process = plan(local, [this_machine()], 1)[0]
    worker = ProcessState(process=process, log=WorkerLog(rank=0, windows=[window, window]))
    assert list(data_notes(local, [worker])) == said
