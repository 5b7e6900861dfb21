"""The forecast of a sweep by made-up earlier runs."""

from dataclasses import replace
from pathlib import Path

import pytest
from invoke.context import Context

import tasks.plan
from bench.trial import Trial, make
from launch.forecast import (
    EarlierRun,
    assumed_seconds,
    earlier_runs,
    expected_seconds,
    forecast,
    measured_keys,
)
from launch.hosts import Login, pretend, this_machine
from launch.sweep import identity
from results.record import emit
from tasks.plan import bench_plan, plan_line
from tests.support.programs.commands import refusal
from tests.support.runs.records import record

SWEEP = """network = "tiny"
batch_per_device = 4
repeats = 3
[[points]]
kvstore = ["local", "dist_sync"]
devices = [1, 2]
"""


def point(**fields: object) -> Trial:
    return make({"network": "alexnet", "batch_per_device": 8, "windows": 9, **fields})


def took(trial: Trial, seconds: float, windows: float) -> EarlierRun:
    return EarlierRun(trial=trial, seconds=seconds, window_seconds=windows)


def test_a_point_takes_the_mean_of_its_earlier_runs() -> None:
    earlier = [took(point(), 10.0, 5.0), took(point(), 20.0, 9.0), took(point(lr=0.5), 99.0, 9.0)]
    assert expected_seconds(point(), earlier) == 15.0


def test_a_similar_point_is_scaled_by_its_windows_not_by_its_start() -> None:
    earlier = [took(point(), 15.0, 5.0)]
    assert expected_seconds(point(batch_per_device=16), earlier) == 10.0 + 2 * 5.0
    assert expected_seconds(point(windows=19), earlier) == 10.0 + 2 * 5.0
    assert expected_seconds(point(windows=999, budget_seconds=30), earlier) == 10.0 + 30.0


def test_the_same_kvstore_is_preferred_and_another_network_says_nothing() -> None:
    earlier = [
        took(point(devices=2, devices_per_host=2), 30.0, 5.0),
        took(point(kvstore="dist_sync", lr=0.5), 50.0, 5.0),
    ]
    assert expected_seconds(point(kvstore="dist_sync"), earlier) == 50.0
    assert expected_seconds(point(network="tiny"), earlier) is None
    assert expected_seconds(point(engine="fake"), earlier) is None


def test_an_assumption_covers_the_start_and_at_most_the_budget() -> None:
    assert assumed_seconds(point()) == 45.0
    assert assumed_seconds(point(device="gpu")) == 60.0
    assert assumed_seconds(point(budget_seconds=5)) == 10.0
    assert assumed_seconds(point(engine="fake")) == 1.0


def test_the_line_counts_points_and_runs_and_names_an_assumption() -> None:
    trials = [point(), point(batch_per_device=16)]
    here = [this_machine()]
    unknown = forecast(trials, 3, [trials[0].key], [])
    assert plan_line(unknown, here) == (
        "2 points, 6 runs, 6 processes, 1 measured, about 4 min on this machine, "
        "assuming 45 s per run: no earlier records"
    )
    known = forecast(trials, 3, [], [took(trials[0], 15.0, 5.0)])
    assert (
        plan_line(known, here)
        == "2 points, 6 runs, 6 processes, 0 measured, about 2 min on this machine"
    )
    listed = [replace(one, login=Login(host=one.name)) for one in pretend(2, 1)]
    assert "on 2 hosts" in plan_line(known, listed)
    done = forecast(trials[:1], 1, [trials[0].key], [])
    assert plan_line(done, here) == "1 point, 1 run, 1 process, 1 measured"


def test_only_good_runs_of_this_machine_count(tmp_path: Path) -> None:
    good = replace(record([[1.0, 2.0, 3.0]]), elapsed_seconds=9.0)
    elsewhere = replace(good, identity=replace(good.identity, hosts=("other",)))
    bad = replace(good, status="failed")
    for name, ones in {"a": (good, elsewhere), "b": (bad,)}.items():
        (tmp_path / name).mkdir()
        lines = "".join(emit(one) + "\n" for one in ones)
        (tmp_path / name / "records.jsonl").write_text(lines + '{"schema": 3, "identi')
    (found,) = earlier_runs(tmp_path, ["h"])
    assert (found.trial, found.seconds, found.window_seconds) == (good.trial, 9.0, 6.0)
    assert earlier_runs(tmp_path / "none", ["h"]) == []


def test_measured_runs_are_those_that_the_sweep_skips(tmp_path: Path) -> None:
    hosts = [this_machine()]
    made = record([[1.0, 2.0, 3.0]])
    same = replace(made, identity=identity(made.trial, 1, hosts, ""))
    old = replace(same, identity=replace(same.identity, repeat=0, code_hash="old"))
    (tmp_path / "records.jsonl").write_text("".join(emit(one) + "\n" for one in (same, old)))
    assert measured_keys(tmp_path, [made.trial], 3, hosts) == [made.trial.key]
    assert measured_keys(tmp_path, [made.trial], 1, hosts) == []
    with (tmp_path / "records.jsonl").open("a") as log:
        log.write(emit(replace(same, status="failed")) + "\n")
    assert measured_keys(tmp_path, [made.trial], 3, hosts) == []


def test_a_plan_begins_with_its_line_and_takes_the_options_of_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tasks.plan, "RUNS", tmp_path / "none")
    file = tmp_path / "mine.toml"
    file.write_text(SWEEP)
    bench_plan.body(Context(), str(file), run=f"{tmp_path}/run")
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("4 points, 12 runs, 30 processes, 0 measured, about 9 min on")
    (row,) = (line.split() for line in rest if "dist_sync x2" in line)
    assert row[3:7] == ["2", "1", "4/4/8", "0/3"]
    options = {"point": "local", "repeats": "2", "engine": "simulated", "run": f"{tmp_path}/run"}
    bench_plan.body(Context(), str(file), **options)
    assert capsys.readouterr().out.startswith(
        "2 points, 4 runs, 4 processes, 0 measured, about 4 s on"
    )
    code, text = refusal(bench_plan, str(file), hosts="h:2", scheduler="last")
    assert (code, text.partition(",")[0]) == (2, "error: --scheduler: expected first or controller")


def test_a_plan_warns_of_the_gpus_that_this_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = replace(this_machine(), gpus=0)
    monkeypatch.setattr("launch.hosts.this_machine", lambda: here)
    file = tmp_path / "mine.toml"
    file.write_text('device = "gpu"\n' + SWEEP.replace('"local", ', ""))
    bench_plan.body(Context(), str(file), run=f"{tmp_path}/run")
    warning = (
        f"warning: no GPU of {here.name}; --engine simulated needs none (tiny dist_sync x1 and"
    )
    assert warning in capsys.readouterr().out
    bench_plan.body(Context(), str(file), run=f"{tmp_path}/run", engine="simulated")
    assert "warning" not in capsys.readouterr().out


def test_a_plan_warns_of_the_programs_and_packages_that_this_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("launch.setup.installed_version", lambda package: "")
    file = tmp_path / "mine.toml"
    program = 'engine = "command"\ncommand = ["no-such"]\nformat = "horovod-synthetic"\ndevices = 1'
    file.write_text(f"{SWEEP}\n[[points]]\n{program}\n")
    bench_plan.body(Context(), str(file), run=f"{tmp_path}/run")
    found = [one for one in capsys.readouterr().out.splitlines() if one.startswith("warning: ")]
    assert [one for one in found if "engine 'mxnet'" in one] == [
        "warning: engine 'mxnet': expected MXNet 1.9.1, got none in this environment. "
        "Run 'make environment'"
    ]
    assert sum(one.startswith("warning: command 'no-such': there is no") for one in found) == 1
    bench_plan.body(Context(), str(file), run=f"{tmp_path}/run", hosts="h:2")
    assert "got none in this environment" not in capsys.readouterr().out


def test_a_plan_with_auto_batch_names_the_networks_without_a_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(SWEEP)
    bench_plan.body(Context(), str(file), run=f"{tmp_path}/run", auto_batch="8")
    assert "batch not known before the sweep searches it: tiny float32" in capsys.readouterr().out
