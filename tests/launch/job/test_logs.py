"""Logs are within their budget, compressed after the job, found by hosts.logs."""

import gzip
import random
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
import launch.job.logs
from launch.hosts import rehearse, this_machine
from launch.job.agents import Agents
from launch.job.logs import MOST_TRIES, Logs, compress, compress_again, files_of, lines_of
from launch.job.monitor import Deadlines, JobMonitor
from launch.job.plan import Process
from launch.job.run import run_job
from results import worker_log
from results.errors import StoreError
from results.run import job_with_logs
from results.run_folder import try_folders
from results.store import read_records
from results.worker_log import parse_worker_log, rank_of
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal
from tests.support.programs.jobs import measured, trial

fabfile: Any = _fabfile
HERE = this_machine()


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def process(code: str = "", index: int = 0) -> Process:
    host = replace(HERE, name=f"node{index + 1:02}")
    return Process(host=host, role="worker", index=index, argv=(sys.executable, "-c", code))


def test_a_log_keeps_the_last_of_what_was_printed_and_says_what_is_gone(tmp_path: Path) -> None:
    logs = Logs(tmp_path, [process()], 2000)
    for first in range(0, 1000, 50):
        logs.write("worker-0", [f"line {n}" for n in range(first, first + 50)])
        assert sum(path.stat().st_size for path in files_of(tmp_path, "worker-0")) <= 2000
    logs.close()
    assert [path.name for path in files_of(tmp_path, "worker-0")] == [
        "worker-0.log.1",
        "worker-0.log",
    ]
    *_, header = [line for line in lines_of(tmp_path, "worker-0") if line.startswith("(mxscale")]
    kept = [line for line in lines_of(tmp_path, "worker-0") if line.startswith("line")]
    assert kept == [f"line {n}" for n in range(1000 - len(kept), 1000)]
    gone = sum(len(f"line {n}\n") for n in range(1000 - len(kept)))
    assert header.startswith("(mxscale: worker-0.log.1 has the lines before this; the first ")
    assert int(header.partition("the first ")[2].split()[0]) == gone


def test_what_fits_is_in_one_file_as_it_was_printed(tmp_path: Path) -> None:
    logs = Logs(tmp_path, [process()], 2000)
    logs.write("worker-0", ["a", "  b \udcff", ""])
    logs.close()
    assert (tmp_path / "worker-0.log").read_bytes() == b"a\n  b ?\n\n"


def test_a_line_longer_than_a_file_is_cut(tmp_path: Path) -> None:
    logs = Logs(tmp_path, [process()], 2000)
    logs.write("worker-0", ["x" * 5000, "y" * 5000, "end"])
    logs.close()
    assert sum(path.stat().st_size for path in files_of(tmp_path, "worker-0")) <= 2000
    assert list(lines_of(tmp_path, "worker-0"))[-1] == "end"


@pytest.mark.program
def test_a_loud_process_fills_no_disk(tmp_path: Path) -> None:
    loud = process("for n in range(100_000): print('line', n, 'x' * 90)")
    monitor = JobMonitor([loud], Deadlines(), time.monotonic())
    with closing(Agents()) as agents:
        for _ in run_job(monitor, agents, tmp_path, 1 << 20):
            assert sum(path.stat().st_size for path in tmp_path.iterdir()) < (1 << 20) + 200
    lines = list(lines_of(tmp_path, "worker-0"))
    assert lines[-1].startswith("line 99999 ")
    assert len(lines) > 5000


def test_large_logs_are_compressed_and_read_alike(tmp_path: Path) -> None:
    logs = Logs(tmp_path, [process(), process(index=1)], 400_000)
    numbers = [str(random.getrandbits(64)) for _ in range(15_000)]
    logs.write("worker-0", numbers)
    logs.write("worker-1", ["small"])
    logs.close()
    before = list(lines_of(tmp_path, "worker-0"))
    compress(tmp_path)
    assert [path.name for path in files_of(tmp_path, "worker-0")] == [
        "worker-0.log.1.gz",
        "worker-0.log.gz",
    ]
    assert list(lines_of(tmp_path, "worker-0")) == before
    assert (tmp_path / "worker-1.log").read_text() == "small\n"
    assert not list(tmp_path.glob("*.part"))


def test_the_logs_of_a_recorded_try_move_to_a_folder_of_their_own(tmp_path: Path) -> None:
    for number in range(1, 4):
        logs = Logs(tmp_path, [process()], 2000, f"start {number}")
        logs.write("worker-0", [f"try {number}"])
        logs.close()
    assert [path.name for path in try_folders(tmp_path)] == ["try-1", "try-2"]
    for number, folder in enumerate([*try_folders(tmp_path), tmp_path], 1):
        assert worker_log.recorded_start(folder) == f"start {number}"
        assert list(lines_of(folder, "worker-0")) == [f"try {number}"]


def test_older_tries_stay_within_the_budget_of_a_process(tmp_path: Path) -> None:
    for number in range(1, 6):
        logs = Logs(tmp_path, [process()], 2000, f"start {number}")
        logs.write("worker-0", ["x" * 250] * 3)
        logs.close()
    assert [path.name for path in try_folders(tmp_path)] == ["try-3", "try-4"]
    Logs(tmp_path, [process()], 20_000_000, "start 6").close()
    for number in range(7, 40):
        Logs(tmp_path, [process()], 20_000_000, f"start {number}").close()
    kept = try_folders(tmp_path)
    assert (len(kept), kept[-1].name) == (MOST_TRIES, "try-38")


def test_the_logs_of_no_record_are_removed(tmp_path: Path) -> None:
    run_folder = ("worker-0.events.jsonl", "worker-1.events.jsonl.gz")
    for name in ("worker-0.log.gz", "worker-0.log.1", "worker-9.log", *run_folder):
        (tmp_path / name).write_text("old")
    Logs(tmp_path, [process()], 2000).close()
    assert [path.name for path in tmp_path.iterdir()] == ["hosts.json"]


def test_events_are_kept_as_they_were_said_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch.job.logs, "MOST_BYTES", 40)
    logs = Logs(tmp_path, [process()], 2000)
    logs.keep("worker-0", ['{"event": "reached"}', "torn {\udcff"])
    logs.keep("worker-0", ["x" * 30])
    logs.keep("worker-0", ["y"])
    logs.close()
    text = (tmp_path / "worker-0.events.jsonl").read_bytes()
    assert text == b'{"event": "reached"}\ntorn {?\n'


def test_logs_say_from_the_beginning_which_record_they_are_of(tmp_path: Path) -> None:
    Logs(tmp_path, [process()], 2000, "yesterday").close()
    assert worker_log.recorded_start(tmp_path) == "yesterday"
    Logs(tmp_path, [process()], 2000, "now").close()
    assert worker_log.recorded_start(tmp_path) == "now"


def test_logs_half_compressed_when_a_sweep_was_ended_are_compressed_again(tmp_path: Path) -> None:
    folder = tmp_path / "key" / "0"
    logs = Logs(folder, [process(), process(index=1)], 400_000, "now")
    lines = [str(random.getrandbits(64)) for _ in range(5_000)]
    for name in ("worker-0", "worker-1"):
        logs.write(name, lines)
    logs.close()
    (folder / "worker-0.log.gz").write_bytes(b"half of it")  # both forms of one log
    for part in (".worker-1.log.part", "worker-1.log.part"):
        (folder / part).write_bytes(b"half of it")
    compress_again(tmp_path)
    names = {"hosts.json", "recorded.json", "worker-0.log.gz", "worker-1.log.gz"}
    assert {path.name for path in folder.iterdir()} == names
    assert list(lines_of(folder, "worker-0")) == list(lines_of(folder, "worker-1")) == lines


@pytest.mark.program
def test_a_record_is_what_its_events_say(tmp_path: Path) -> None:
    (record,) = measured(tmp_path, trial("worker-1:exit@2"))
    logs = tmp_path / "logs" / record.identity.key / "0"
    assert record.status == "failed"
    for rank in record.ranks:
        told = parse_worker_log(worker_log.read_lines(logs / f"{rank.process}.events.jsonl"))
        assert rank_of(told, rank.host, rank.process) == rank
    assert worker_log.recorded_start(logs) == record.started


@pytest.mark.program
def test_a_point_that_is_recorded_has_its_large_logs_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch.job.logs, "COMPRESS_ABOVE_BYTES", 20)
    (record,) = measured(tmp_path, trial())
    logs = tmp_path / "logs" / record.identity.key / "0"
    with gzip.open(logs / "worker-1.log.gz", "rt") as file:
        assert "window 3" in file.read()
    assert read_records(tmp_path) == [record]


@pytest.mark.program
def test_the_ends_of_all_hosts_logs_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch.job.logs, "COMPRESS_ABOVE_BYTES", 50)
    one, two = trial(devices=1, devices_per_host=1, kvstore="local"), trial(devices_per_host=1)
    records = measured(tmp_path, one, two, repeats=2, hosts=rehearse(2, 1))
    run = str(tmp_path)

    def said(**options: str) -> list[str]:
        fabfile.hosts.hosts_logs.body(Context(), run=run, **options)
        return [line for line in capsys.readouterr().out.splitlines() if line]

    lines = said(lines="2")
    where = f"{tmp_path}/logs/{records[-1].identity.key}/1"
    assert lines[0] == f"# tiny dist_sync x2, repeat 2: {where}"
    assert lines[1] == "# host01 scheduler-0: printed nothing"
    block = lines.index("# host02 worker-1: worker-1.log.gz")
    rank = next(rank.rank for rank in records[-1].ranks if rank.process == "worker-1")
    assert lines[block + 1 :] == [f"rank {rank} window 2", f"rank {rank} window 3"]
    assert said(point="tiny x1", repeat="1")[:1] == [
        f"# tiny local x1, repeat 1: {tmp_path}/logs/{records[0].identity.key}/0"
    ]
    assert said(process="scheduler-0")[1:] == ["# host01 scheduler-0: printed nothing"]
    (Path(where) / "scheduler-0.log").unlink()
    (Path(where) / "scheduler-0.events.jsonl").unlink()
    assert said(process="scheduler-0")[1:] == ["# host01 scheduler-0: never started"]
    assert [line for line in said(process="worker-0") if line.startswith("# host")] == [
        "# host01 worker-0: worker-0.log.gz"
    ]


@pytest.mark.program
def test_without_words_the_newest_job_without_a_result_comes_first(tmp_path: Path) -> None:
    failing, good = trial("worker-1:exit@1"), trial(devices=1, kvstore="local")
    failed, ok = measured(tmp_path, failing, good)
    assert (failed.status, ok.status) == ("failed", "ok")
    assert job_with_logs(tmp_path, "", None)[0] == failed.identity
    assert job_with_logs(tmp_path, "tiny", None)[0] == ok.identity


@pytest.mark.program
def test_points_of_one_name_are_distinguished(tmp_path: Path) -> None:
    both = trial(lr=0.1), trial(lr=0.2)
    measured(tmp_path, *both)
    with pytest.raises(StoreError, match=r"tiny dist_sync x2 lr=0\.1, tiny dist_sync x2 lr=0\.2"):
        job_with_logs(tmp_path, "x9", None)
    assert job_with_logs(tmp_path, f"key={both[0].key}", None)[0].key == both[0].key


@pytest.mark.program
def test_logs_that_are_not_there_are_one_line(tmp_path: Path) -> None:
    measured(tmp_path, trial())
    run = str(tmp_path)
    for options, said in (
        ({"point": "x9"}, "no point with logs has 'x9'; those with logs: tiny dist_sync x2"),
        ({"repeat": "7"}, "no point with logs has repeat 7; those"),
        (
            {"process": "worker-7"},
            "--process: expected one of the job's 5 processes, such as worker-1, got 'worker-7'",
        ),
        ({"lines": "-1"}, "--lines: expected a whole number, 1 or more, got '-1'"),
    ):
        code, line = refusal(fabfile.hosts.hosts_logs, run=run, **options)
        assert (code, said in line) == (2, True), line
    code, line = refusal(fabfile.hosts.hosts_logs, run=str(tmp_path / "none"))
    assert (code, "no such run folder" in line) == (2, True)
