"""The recorded command of a run, and the command that reruns a point."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from invoke.parser import Parser

import fabfile as _fabfile
from plots.markdown import document
from plots.page.commands import rerun_command, rerun_title
from plots.page.page import page
from results.run import load
from tasks.cli import command_words
from tests.support.pages.pages import details, run_of
from tests.support.paths import ROOT
from tests.support.programs.commands import SWEEP, fab, sweep_file
from tests.support.runs.records import record

# Invoke types a task as the function it wraps.
fabfile: Any = _fabfile

DEMO = ROOT / "docs" / "runs" / "demo"


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def kept(*typed: str) -> list[str]:
    """Return the recorded part of a command, without program and task."""
    contexts = fabfile.namespace.to_contexts()
    (call,) = Parser(contexts=contexts).parse_argv(["bench.sweep", *typed])
    return list(
        command_words(
            call.as_kwargs,
            list(fabfile.bench.bench_sweep.body.__signature__.parameters.values())[1:],
        )
    )


def replayed(*words: str, **fields: Any) -> list[str]:
    """Return the words after the sweep in the command that reruns a point."""
    run = run_of(
        record([[1, 2.0, 2.1]], **fields),
        folder=DEMO,
        environment={"command": ["fab", "bench.sweep", *words]},
    )
    found = shlex.split(rerun_command(run, run.rows[0]))
    assert found[:3] == [".venv/bin/fab", "bench.sweep", "docs/runs/demo/sweep.toml"]
    return found[3:]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("demo", "demo"),
        ("--sweep demo --run foo", "demo --run=foo"),
        ("--run=foo demo", "demo --run=foo"),
        ("demo -x A=1 -x=B=2", "demo -x A=1 -x B=2"),
        ("demo --first-window 9 --in-order --auto-batch", None),
        ("demo --auto-batch=8 --hosts 'a:2,b:2' --accept-new", None),
        ("demo --fault 'x1:worker:kill' --fault x2:server:hang", None),
        ("'my sweep.toml' --run \"it's mine\" -x 'A=$B \"c\"' --point 'alexnet x1'", None),
    ],
)
def test_a_command_is_kept_whatever_way_it_is_typed(typed: str, words: str | None) -> None:
    found = kept(*shlex.split(typed))
    if words is not None:
        assert found == shlex.split(words)
    assert kept(*found) == kept(*shlex.split(shlex.join(found))) == found


def test_a_point_is_run_again_with_the_options_of_the_run() -> None:
    given = ("mine", "--point=alexnet", "--run=a b", "-x", "A=it's 1", "--repeats=1", "--in-order")
    point = ["--point", "alexnet local x1"]
    same = ["-x", "A=it's 1", "--repeats=1", "--in-order"]
    assert replayed(*given) == [*point, *same, "--run", "demo-again"]


def test_of_options_for_some_points_those_of_the_point_are_kept() -> None:
    faults = ("--fault=x1:worker:kill", "--fault=x2:worker:kill", "--fault=:server:hang")
    found = replayed("mine", *faults, "--engine=fake", engine="fake")
    assert [word for word in found if "=" in word] == [faults[0], faults[2], "--engine=fake"]
    assert "--auto-batch=8" in replayed("mine", "--auto-batch", batch_per_device=8)


def test_of_a_run_that_kept_no_command_the_box_says_what_lacks(tmp_path: Path) -> None:
    run = run_of(record([[1, 2.0, 2.1]]), folder=DEMO)
    assert rerun_title(run) == (
        "Whole point, from the checkout; the run did not record the options it was given"
    )
    (tmp_path / "sweep.toml").touch()
    told = {"command": ["fab", "bench.sweep", "a b", "--repeats=1"]}
    run = run_of(record([[1, 2.0, 2.1]]), folder=tmp_path, environment=told)
    assert rerun_title(run) == "Whole point, from the checkout; replace RUN by this run's folder"
    assert details(page(run))[0]["replay"]["title"] == rerun_title(run)
    assert "- command: fab bench.sweep 'a b' --repeats=1" in document(run)


@pytest.mark.slow
@pytest.mark.program
def test_the_command_of_a_point_measures_that_point_again(tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, SWEEP + "[[points]]\nkvstore = 'dist_sync'\ndevices = [1, 2]\n")
    words = ("--precision", "0.5", "--repeats", "1", "-x", "OMP_NUM_THREADS=2", "-x", "B=two words")
    done = fab("bench.sweep", sweep, "--run", f"{tmp_path}/run", *words)
    assert done.returncode == 0, done.stderr
    first = load(tmp_path / "run")
    again = rerun_command(first, first.rows[1]).replace("RUN/", f"{tmp_path}/run/")
    name = again.rpartition(" ")[2]
    done = fab(*shlex.split(again.replace(f"--run {name}", f"--run {tmp_path}/{name}"))[1:])
    assert done.returncode == 0, done.stderr
    (row,) = load(tmp_path / name).rows
    assert row.trial == first.rows[1].trial
    assert row.trial.layout.env == ("OMP_NUM_THREADS=2", "B=two words")
    environment = json.loads((tmp_path / name / "environment.json").read_text())
    assert environment["command"][:2] == ["fab", "bench.sweep"]
