"""A finished point runs again if anything that affects its result has changed."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
import launch.sweep
from bench.trial import Trial
from launch.hosts import rehearse
from launch.remote.code_hash import code_hash
from results.run import load
from results.store import read_records
from tests.support.data.trees import made, tree, wanted
from tests.support.paths import ROOT
from tests.support.programs.commands import FAB, SWEEP, fab, refusal, sweep_file
from tests.support.programs.jobs import measured, trial

fabfile: Any = _fabfile
pytestmark = pytest.mark.program
POINT = "[[points]]\nkvstore = 'local'\n"


def ran(folder: Path, *trials: Trial, **how: object) -> list[str]:
    """Return the names of the points that a sweep of these trials ran."""
    return [record.identity.name for record in measured(folder, *trials, **how)]


ONE, TWO = trial(devices=1, kvstore="local"), trial(devices=2, kvstore="local")
ALL = [ONE.name, TWO.name]


def test_nothing_runs_again_where_nothing_has_changed(tmp_path: Path) -> None:
    assert ran(tmp_path, ONE, TWO) == ALL
    assert ran(tmp_path, ONE, TWO) == []
    assert ran(tmp_path, TWO, ONE) == []


def test_a_changed_trial_runs_again_alone(tmp_path: Path) -> None:
    ran(tmp_path, ONE, TWO)
    assert ran(tmp_path, ONE, TWO.replace(lr=0.5)) == [TWO.name]
    assert ran(tmp_path, ONE, TWO) == []  # the first is not forgotten


def test_repeats_that_are_added_run_alone(tmp_path: Path) -> None:
    ran(tmp_path, ONE, TWO)
    again = measured(tmp_path, ONE, TWO, repeats=3)
    assert [(one.identity.name, one.identity.repeat) for one in again] == [
        (name, repeat) for repeat in (1, 2) for name in ALL
    ]


def test_everything_runs_again_where_the_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _) = measured(tmp_path, ONE, TWO)
    assert first.identity.code_hash == code_hash(ROOT)
    monkeypatch.setattr(launch.sweep, "own_code", lambda: "another")
    assert ran(tmp_path, ONE, TWO) == ALL
    assert ran(tmp_path, ONE, TWO) == []


def test_points_whose_shards_have_changed_run_again(tmp_path: Path) -> None:
    def reading(name: str) -> Trial:
        data = str(tmp_path / f"{name}_rec" / "train")
        return trial(mode="real", kvstore="local", devices=1, data_train=data, batch_per_device=2)

    for name in ("a", "b"):
        made(tree(tmp_path / name, {"cat": 8}))
    run = tmp_path / "run"
    assert len(ran(run, reading("a"), reading("b"), ONE)) == 3
    shutil.rmtree(tmp_path / "b_rec")
    made(tmp_path / "b", wanted(short_edge=48))
    again = measured(run, reading("a"), reading("b"), ONE)
    assert [record.trial for record in again] == [reading("b")]


def test_points_that_used_a_host_that_was_replaced_run_again(tmp_path: Path) -> None:
    one, two = trial(devices=1, devices_per_host=1), trial(devices=2, devices_per_host=1)
    hosts = rehearse(2, 1)
    assert len(ran(tmp_path, one, two, hosts=hosts)) == 2
    replaced = (hosts[0], replace(hosts[1], name="host07"))
    assert ran(tmp_path, one, two, hosts=replaced) == [two.name]
    assert ran(tmp_path, one, two, hosts=hosts) == []


def test_points_that_failed_run_again(tmp_path: Path) -> None:
    bad = trial("worker:exit", kvstore="local")
    assert len(ran(tmp_path, ONE, bad)) == 2
    assert ran(tmp_path, ONE, bad) == [bad.name]


def test_one_point_of_a_sweep_can_be_measured_alone(tmp_path: Path) -> None:
    path = sweep_file(tmp_path, f"{SWEEP}{POINT}devices = [1, 2]\n")
    done = fab("bench.sweep", path, "--run", f"{tmp_path}/r", "--point", "tiny x2")
    assert done.returncode == 0, done.stderr
    assert [record.trial.layout.devices for record in read_records(tmp_path / "r")] == [2]
    code, said = refusal(fabfile.bench.bench_sweep, path, run=f"{tmp_path}/r", point="tiny x3")
    assert (code, "words of a point's name, got 'tiny x3'" in said) == (2, True), said


def test_points_with_one_name_measured_one_after_the_other_share_a_report(tmp_path: Path) -> None:
    path, folder = sweep_file(tmp_path, f"{SWEEP}{POINT}lr = [0.1, 0.2]\n"), tmp_path / "r"
    for words in ("lr=0.2", "lr=0.1"):
        fabfile.bench.bench_sweep.body(Context(), path, run=str(folder), point=words)
    assert [row.trial.training.lr for row in load(folder).rows] == [0.1, 0.2]


@pytest.mark.slow  # tests/launch/remote/test_code_hash.py has what the hash covers
def test_a_changed_file_counts_if_it_decides_a_number(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in ("bench", "im2rec_tools", "launch", "plots", "results", "tasks"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("runs"))
    for name in ("fabfile.py", "requirements.lock"):
        shutil.copy(ROOT / name, checkout)
    (checkout / "mine.toml").write_text(SWEEP + POINT + "devices = 1\n")
    command = [str(FAB), "bench.sweep", "mine.toml"]
    for changes, count in (
        ((), 1),
        ((("bench/events.py", "# another line\n"), ("launch/job/monitor.py", "LIMIT = 1\n")), 1),
        ((("bench/statistics/stopping_rule.py", "LIMIT = 1\n"),), 2),
    ):
        for file, line in changes:
            with (checkout / file).open("a") as source:
                source.write(line)
        subprocess.run(command, cwd=checkout, capture_output=True, check=True)
        assert len(read_records(checkout / "results" / "runs" / "mine")) == count
