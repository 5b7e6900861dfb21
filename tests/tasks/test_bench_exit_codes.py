"""Exit codes of a sweep with points that have no result or caveats."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from invoke.tasks import Task

from results.record import emit
from tasks.bench import bench_sweep
from tasks.report import report_build, report_show
from tests.support.programs.commands import POINT, SWEEP, refusal, sweep_file
from tests.support.runs.records import record
from tests.support.runs.stores import stored


@pytest.mark.program
def test_a_failed_point_is_exit_code_5_and_the_report_is_written(tmp_path: Path) -> None:
    text = SWEEP + POINT + "[[points]]\nfake_faults = ['worker:exit']\n"
    code, said = refusal(bench_sweep, sweep_file(tmp_path, text), [], run=f"{tmp_path}/run")
    assert (code, said) == (5, "some points have no result; see the table for the reasons")
    assert "failed" in (tmp_path / "run" / "report" / "results.csv").read_text()


@pytest.mark.program
def test_a_point_that_does_not_become_steady_is_exit_code_6_and_has_its_number(
    tmp_path: Path,
) -> None:
    rising = [round(0.02 * 1.03**n, 4) + 0.001 * (n % 2) for n in range(21)]
    point = POINT + f"fake_seconds = {rising}\nprecision = 0.001\nwindows = 20\n"
    text = SWEEP.replace("precision = 0.0\n", "").replace("windows = 3\n", "") + point
    code, said = refusal(bench_sweep, sweep_file(tmp_path, text), [], run=f"{tmp_path}/run")
    assert (code, said) == (6, "some points reached no steady state; see the table for them")
    rows = (tmp_path / "run" / "report" / "results.csv").read_text().splitlines()[1:]
    assert all(",unstable," in row for row in rows)


@pytest.mark.parametrize("task", [report_build, report_show])
def test_building_and_showing_end_alike(tmp_path: Path, task: Task[Any]) -> None:
    whole = [record([[1.0, 1.0, 1.0]], repeat=n) for n in range(2)]
    log = stored(tmp_path, whole[0])
    asked = [dataclasses.asdict(one.identity) for one in whole]
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    missing = (5, "some points have not run yet; see the table for them")
    assert refusal(task, run=f"{tmp_path}/") == missing
    log.write_text("".join(emit(one) + "\n" for one in whole)[:-20])
    unread = (5, "some of the run is unreadable; see the lines at the table")
    assert refusal(task, run=f"{tmp_path}/") == unread
    failed = dataclasses.replace(whole[1], status="hung")
    log.write_text("".join(emit(one) + "\n" for one in (whole[0], failed)))
    assert refusal(task, run=f"{tmp_path}/") == (
        5,
        "some points have no result; see the table for the reasons",
    )
