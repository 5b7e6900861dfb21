"""Exit codes of a sweep with points that have no result or caveats."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.tasks import Task

import tasks.bench
from plots.check import verify_report
from results.record import emit
from results.run import load
from results.store import read_records
from tasks.bench import bench_sweep
from tasks.plan import bench_plan
from tasks.report import report_build, report_show
from tests.support.programs.commands import POINT, SWEEP, refusal, sweep_file
from tests.support.runs.records import record
from tests.support.runs.stores import stored


@pytest.mark.program
def test_a_failed_point_is_exit_code_5_and_the_report_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SWEEP + POINT + "[[points]]\nfake_faults = ['worker:exit']\n"
    code, _ = refusal(bench_sweep, sweep_file(tmp_path, text), [], run=f"{tmp_path}/run")
    assert code == 5
    *_, heading, cause, command, end = capsys.readouterr().err.splitlines()
    assert heading == "some points have no result; the reasons are below the table"
    assert cause.startswith("tiny local x1: failed: worker 0 (rank 0) on ")
    assert re.fullmatch(r"  worker-0 \(PID \d+\) in window 1 of \d+ printed nothing", command)
    assert end.startswith("Finished repeats are kept. Run the failed ones again: fab bench.sweep ")
    assert end.endswith(f" --run={tmp_path}/run")
    assert "failed" in (tmp_path / "run" / "report" / "results.csv").read_text()


@pytest.mark.program
def test_a_class_of_repeats_is_measured_again_and_the_earlier_tries_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SWEEP + POINT + "[[points]]\nfake_faults = ['worker:exit:first']\n"
    file, run = sweep_file(tmp_path, text), tmp_path / "run"
    assert refusal(bench_sweep, file, [], run=str(run))[0] == 5
    before = [one.status for one in read_records(run)]
    capsys.readouterr()
    bench_plan(Context(), file, run=str(run), again="failed")
    planned = capsys.readouterr().out
    assert planned.startswith("1 point, 1 run, 1 process, 0 measured, about ")
    bench_sweep(Context(), file, run=str(run), again="failed")
    assert sorted(before) == ["failed", "ok", "ok"]
    assert [one.status for one in read_records(run)] == [*before, "ok"]
    assert "Earlier tries, which do not count: " in capsys.readouterr().out
    assert "--again" not in json.dumps(load(run).environment["command"])
    assert verify_report(run).wrong == []
    bench_sweep(Context(), file, run=str(run), again="failed")
    assert "--again failed: no such repeat in " in capsys.readouterr().out
    assert len(read_records(run)) == 4
    bench_plan(Context(), file, run=str(run), again="failed")
    assert capsys.readouterr().out.startswith("--again failed: no such repeat in run")
    code, said = refusal(bench_sweep, file, [], run=str(run), again="all")
    assert (code, "expected one of failed, unstable, doubtful, got 'all'" in said) == (2, True)


@pytest.mark.program
def test_a_point_that_does_not_become_steady_is_exit_code_6_and_has_its_number(
    tmp_path: Path,
) -> None:
    rising = [round(0.02 * 1.03**n, 4) + 0.001 * (n % 2) for n in range(21)]
    point = POINT + f"fake_seconds = {rising}\nprecision = 0.001\nwindows = 20\n"
    text = SWEEP.replace("precision = 0.0\n", "").replace("windows = 3\n", "") + point
    code, said = refusal(bench_sweep, sweep_file(tmp_path, text), [], run=f"{tmp_path}/run")
    assert (code, said) == (
        6,
        "some points reached no steady state; their notes are below the table",
    )
    rows = (tmp_path / "run" / "report" / "results.csv").read_text().splitlines()[1:]
    assert all(",unstable," in row for row in rows)


@pytest.mark.program
def test_an_interrupt_of_the_report_names_the_command_that_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks.bench, "build_report", interrupted)
    file, run = sweep_file(tmp_path, SWEEP + POINT), f"{tmp_path}/run"
    assert refusal(bench_sweep, file, [], run=run, speedup_baseline="local x1") == (
        130,
        "interrupted while writing the report; all repeats are kept. "
        f"Complete it with: fab report.build --run {run} --speedup-baseline 'local x1'",
    )
    assert [one.status for one in read_records(tmp_path / "run")] == ["ok", "ok"]


@pytest.mark.parametrize("task", [report_build, report_show])
def test_building_and_showing_end_alike(tmp_path: Path, task: Task[Any]) -> None:
    whole = [record([[1.0, 1.0, 1.0]], repeat=n) for n in range(2)]
    log = stored(tmp_path, whole[0])
    asked = [dataclasses.asdict(one.identity) for one in whole]
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    missing = (5, "some runs are not measured yet; they are listed below the table")
    assert refusal(task, run=f"{tmp_path}/") == missing
    log.write_text("".join(emit(one) + "\n" for one in whole)[:-20])
    unread = (5, "some of the run is unreadable; the lines above the table name the parts")
    assert refusal(task, run=f"{tmp_path}/") == unread
    failed = dataclasses.replace(whole[1], status="hung")
    log.write_text("".join(emit(one) + "\n" for one in (whole[0], failed)))
    assert refusal(task, run=f"{tmp_path}/") == (
        5,
        "some points have no result; the reasons are below the table",
    )
