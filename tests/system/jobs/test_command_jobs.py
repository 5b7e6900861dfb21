"""Jobs of engine `command` under the real agent, with a small program."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.notes import NoteKind
from bench.sweep import load_sweep
from bench.trial import Trial, make
from launch.job.monitor import Deadlines
from plots.figures.caption import method
from plots.page.page import page
from plots.summary import summary
from results.integrity.rederive import rederive_run
from results.record import Cause, Record
from results.run import load
from results.run_folder import job_logs
from tests.support.paths import ROOT
from tests.support.programs.jobs import measured

pytestmark = pytest.mark.program
BENCHMARK = str(ROOT / "tests" / "support" / "programs" / "benchmark.py")
PATIENT = Deadlines()


def trial(*words: str, **fields: Any) -> Trial:
    own: dict[str, Any] = {"engine": "command", "network": "tiny"}
    own |= {"command": [sys.executable, BENCHMARK, *words]}
    own |= {"format": "horovod-synthetic", "batch_per_device": 4, "precision": 0.0, "windows": 0}
    return make(own | fields)


def recorded(folder: Path, *words: str, **fields: Any) -> Record:
    (record,) = measured(folder, trial(*words, **fields), deadlines=PATIENT)
    return record


def test_progress_bars_and_decimal_commas_are_windows_until_the_program_ends(
    tmp_path: Path,
) -> None:
    record = recorded(tmp_path, "bars")
    assert (record.status, record.message) == ("ok", "")
    (rank,) = record.ranks
    assert (rank.seconds, rank.images) == ((10.0,) * 6, (40,) * 6)
    assert (rank.cpu_seconds, rank.losses) == ((), ())
    assert rank.facts["ended"] == "program"
    assert record.source == "reported by benchmark.py (horovod-synthetic)"
    assert not record.imported


def test_the_report_says_that_a_program_reported_it(tmp_path: Path) -> None:
    record = recorded(tmp_path, "bars", "12")
    run = load(tmp_path)
    (row,) = run.rows
    assert row.standing == "reported"
    assert row.rate
    assert row.rate.images_per_second == 4
    kinds = {note.kind for note in row.notes}
    assert NoteKind.REPORTED in kinds
    assert NoteKind.PRINTED_CONTRADICTED in kinds  # its lines come every 10 ms, not every 10 s
    assert kinds.isdisjoint({NoteKind.NOT_OURS, NoteKind.BUSY_BASELINE})
    text = summary(run)
    assert f"not measured by mxscale. Source: {record.source}" in text
    assert "MXNet" not in text
    told = " ".join(method(run, run.rows))
    assert f"Reported by a program, not measured by mxscale; source: {record.source}" in told
    _, result = rederive_run(tmp_path)
    assert (result.wrong, result.ranks, result.windows) == ([], 1, 12)


def test_a_precise_measurement_ends_the_program(tmp_path: Path) -> None:
    record = recorded(tmp_path, "endless", precision=0.5)
    assert (record.status, record.ranks[0].facts["ended"]) == ("ok", "precision")
    assert len(record.ranks[0].seconds) == 10


def test_placeholders_are_filled_and_nothing_of_mxscale_is_inherited(tmp_path: Path) -> None:
    words = ("environment", "6", "{devices}x{batch}={global_batch}", "{hosts}", "{host_slots}")
    record = recorded(tmp_path, *words, devices=2)
    log = job_logs(tmp_path, record.identity.key, 0) / "worker-0.log"
    text = log.read_text()
    assert "own []" in text
    assert "words ['2x4=8', '127.0.0.1', '127.0.0.1:2']" in text


def test_the_whole_output_of_tf_cnn_benchmarks_is_a_measurement(tmp_path: Path) -> None:
    words = ["cat", str(ROOT / "tests" / "logs" / "tf-cnn.log")]
    job = {"format": "tf-cnn", "batch_per_device": 64, "devices": 4, "devices_per_host": 4}
    record = recorded(tmp_path, command=words, emulate=True, **job)
    assert (record.status, record.message) == ("ok", "")
    (rank,) = record.ranks
    assert set(rank.images) == {2560}
    assert sum(rank.images) / sum(rank.seconds) == pytest.approx(4037.1)


def test_escapes_scripts_events_and_impossible_figures_stay_in_the_log(tmp_path: Path) -> None:
    record = recorded(tmp_path, "hostile")
    assert record.status == "failed"
    assert "benchmark.py exited with code 1; last log lines: " in record.message
    assert "forged" not in record.message.partition("last log lines")[0]
    assert record.message.isprintable()
    events = (job_logs(tmp_path, record.identity.key, 0) / "worker-0.events.jsonl").read_text()
    assert events.count('"window"') == 6
    text = page(load(tmp_path))
    assert "<script>alert(1)" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("words", "fields", "said"),
    [
        (
            ("silent",),
            {},
            "expected lines with a throughput in format horovod-syn.* got none in .* code 0. Check",
        ),
        (
            ("bars",),
            {"windows": 9},
            "expected 10 windows .1 of them warm-up., got 6 before it",
        ),
        (("bars", "1"), {}, "expected 2 windows .1 of them warm-up., got 1"),
        (("other",), {}, "batch_per_device that the program prints: expected 4, .* got 99"),
        (("fail",), {}, "benchmark.py exited with code 1.*no space left on device"),
        (("killed",), {}, "benchmark.py was killed by SIGKILL"),
        (("orphan",), {}, r"left processes behind: sleep 1234 .PID \d+.*; they were ended"),
    ],
)
def test_a_program_that_gives_no_measurement_fails_its_point(
    tmp_path: Path, words: tuple[str, ...], fields: dict[str, Any], said: str
) -> None:
    record = recorded(tmp_path, *words, **fields)
    assert record.status == "failed"
    assert re.search(said, record.message), record.message
    assert "\n" not in record.message
    for pid in re.findall(r"PID (\d+)", record.message):
        assert not Path(f"/proc/{pid}").exists()
    assert record.failure
    assert record.failure.cause in {Cause.EXITED, Cause.INVALID}


def test_a_program_that_stops_printing_is_stalled(tmp_path: Path) -> None:
    short = Deadlines(progress=1.0, progress_factor=0.1)  # of the reported 10 s
    (record,) = measured(tmp_path, trial("stuck"), deadlines=short)
    assert (record.status, record.failure and record.failure.cause) == ("hung", Cause.STALLED)
    assert re.search(r"no progress for 1 s after 6 windows: worker 0", record.message)


def test_a_program_that_a_host_lacks_fails_its_point(tmp_path: Path) -> None:
    record = recorded(tmp_path, command=["no-such-program"])
    assert record.status == "failed"
    assert "no-such-program: cannot be started (No such file or directory)" in record.message
    script = tmp_path / "script"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    (record,) = measured(tmp_path / "second", trial(command=[str(script)]))
    assert "Install the interpreter that its first line names" in record.message


def test_a_child_that_prints_on_does_not_hide_how_the_program_ended(tmp_path: Path) -> None:
    record = recorded(tmp_path, command=["sh", "-c", "yes & exit 3"])
    assert (record.status, record.failure and record.failure.cause) == ("failed", Cause.EXITED)
    assert "sh exited with code 3" in record.message


@pytest.mark.parametrize(
    ("env", "path"), [(["PYTHONPATH=/a:/b"], "/a:/b"), (["PYTHONPATH=/a"], "/a"), ([], "")]
)
def test_a_points_own_pythonpath_is_that_of_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: list[str], path: str
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    record = recorded(tmp_path, command=["sh", "-c", "echo path=$PYTHONPATH."], env=env)
    assert f"last log lines: path={path}." in record.message


def test_bytes_that_are_no_text_are_read_in_any_encoding(tmp_path: Path) -> None:
    lines = r"for n in 1 2 3; do printf '\377\nIter #'$n': 4.0 img/sec per CPU\n'; done"
    record = recorded(tmp_path, command=["sh", "-c", lines], env=["PYTHONIOENCODING=ascii"])
    assert (record.status, record.message) == ("ok", "")
    assert len(record.ranks[0].seconds) == 3


def test_processes_of_other_sessions_end_if_the_agent_is_killed() -> None:
    ones = ("devices", "batch", "global_batch", "printers", "steps")
    settings: dict[str, Any] = dict.fromkeys(ones, 1)
    settings |= {"format": "horovod-synthetic", "gpus": "", "warmup_windows": 1, "windows": 0}
    settings |= {"precision": 0.0, "budget_seconds": 60.0}
    daemon = "import time; print('daemon', flush=True); time.sleep(1234)"
    program = f'setsid {sys.executable} -c "{daemon}" & wait'
    runner = [sys.executable, "-m", "bench.engines.command.runner", json.dumps(settings)]
    agent = subprocess.Popen(
        ["sh", "-c", '"$@" & wait', "agent", *runner, "sh", "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with agent:
        assert agent.stdout
        assert agent.stdout.readline() == "daemon\n"
        agent.kill()
        assert agent.stdout.read() == ""  # all processes with this end of the pipe have ended


@pytest.mark.mxnet
def test_lines_of_mxnets_own_speedometer_are_read(tmp_path: Path) -> None:
    """Speedometer logs to stderr, and waits for the metric in every step."""
    words = [sys.executable, "-m", "tests.support.programs.speedometer", "{global_batch}"]
    record = recorded(tmp_path, command=words, format="mxnet", precision=0.5)
    assert (record.status, record.message) == ("ok", "")
    assert record.source == "reported by tests.support.programs.speedometer (mxnet)"
    assert NoteKind.PRINTED_CONTRADICTED not in {note.kind for note in record.notes}
    assert set(record.ranks[0].images) == {80}


@pytest.mark.slow
def test_the_shipped_sweep_of_torchrun_measures_its_points(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs 'make torch'")
    if not (ROOT / ".venv" / "bin" / "torchrun").is_file():
        pytest.skip("needs 'make torch' in .venv")
    trials = [one.replace(precision=0.5) for one in load_sweep("torchrun").trials]
    records = measured(tmp_path, *trials, deadlines=PATIENT)
    assert [(one.status, one.message) for one in records] == [("ok", "")] * 2
    for record in records:
        assert NoteKind.PRINTED_CONTRADICTED not in {note.kind for note in record.notes}
    assert sorted(set(record.ranks[0].images).pop() for record in records) == [80, 160]
