"""`report.explain` from the command line."""

from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import tasks.compare
import tasks.report
from tests.support.paths import ROOT
from tests.support.programs.commands import fab, refusal
from tests.support.runs.comparisons import quiet
from tests.support.runs.stores import stored

commands: Any = tasks.compare

# Two workers of the simulated engine that compute longer than one alone.
SWEEP = """
engine = "fake"
network = "tiny"
batch_per_device = 8
windows = 6
repeats = 1
devices_per_host = 2
[[points]]
kvstore = "local"
devices = 1
[[points]]
kvstore = "dist_sync"
devices = 2
fake_seconds = [5.0]
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a run named mine, measured by an earlier version."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tasks.report, "RUNS", tmp_path)
    stored(tmp_path / "mine", *quiet(), *quiet(devices=2))
    return tmp_path / "mine"


@pytest.mark.usefixtures("run")
def test_an_older_run_is_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    commands.report_explain.body(Context(), run="mine", point="x2")
    printed = capsys.readouterr().out
    assert "x2, verdict not measured:" in printed
    assert "not measured: waiting for input" in printed
    assert "local x1," not in printed


def test_a_runs_ceilings_are_those_of_the_other_runs(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looked: list[Path] = []

    def found(folder: Path) -> list[Any]:
        looked.append(folder)
        return []

    monkeypatch.setattr("results.explain.ceilings.ceiling_points", found)
    commands.report_explain.body(Context(), run="mine")
    assert looked == [run.parent]
    assert "verdict" in capsys.readouterr().out


@pytest.mark.usefixtures("run")
def test_nothing_to_confirm_and_unknown_points_are_one_line() -> None:
    code, line = refusal(commands.report_explain, run="mine", confirm=True)
    assert code == 2
    assert "--confirm: expected one point with a counter-experiment, got 0 of 2." in line
    code, line = refusal(commands.report_explain, run="mine", point="x64")
    assert (code, line.startswith("error: point: expected words")) == (2, True)


@pytest.mark.program
@pytest.mark.slow
def test_a_counter_experiment_is_run_and_judged(tmp_path: Path) -> None:
    """The scripted times do not depend on the workers per host: not confirmed."""
    (tmp_path / "mine.toml").write_text(SWEEP)
    folder = str(tmp_path / "mine")
    assert fab("bench.sweep", str(tmp_path / "mine.toml"), "--run", folder).returncode == 0
    done = fab("report.explain", "x2", folder, "--confirm")
    assert done.returncode == 0, done.stderr
    assert "SIMULATED tiny dist_sync x2, verdict cores 51 %:" in done.stdout
    assert "cores not confirmed: a step takes 5.00 s with devices=1" in done.stdout
