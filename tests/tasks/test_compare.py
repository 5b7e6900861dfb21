"""Comparison of runs from the command line: output and exit codes."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import tasks.compare
import tasks.report
from bench.notes import Note, NoteKind
from tests.support.paths import ROOT
from tests.support.programs.commands import fab, refusal
from tests.support.runs.comparisons import quiet
from tests.support.runs.stores import stored

# Invoke types a task as the function it wraps.
commands: Any = tasks.compare


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of runs: fast, slow (5 % longer), gone (a point lost), other."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tasks.report, "RUNS", tmp_path)
    monkeypatch.setattr(tasks.report, "BASELINES", tmp_path / "baselines")
    stored(tmp_path / "fast", *quiet(), *quiet(devices=2))
    stored(tmp_path / "slow", *quiet(1.05), *quiet(devices=2))
    stored(tmp_path / "gone", *quiet())
    stored(tmp_path / "other", *quiet(lr=0.5))
    for name in ("fast", "slow", "gone", "other"):
        (tmp_path / name / "environment.json").write_text('{"processor": "P1"}')
    return tmp_path


def test_a_comparison_without_a_gate_ends_well(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.report_compare.body(Context(), "fast", "slow")
    said = capsys.readouterr().out
    assert "slow (B) vs fast (A), images/s" in said
    assert "2 points: 1 regressed, 1 inconclusive." in said


def test_a_run_beside_itself_or_its_copy_is_said_to_be_the_same(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs / "fast", runs / "copy")
    for other, same in (("fast", True), ("copy", True), ("slow", False)):
        commands.report_compare.body(Context(), "fast", other)
        assert ("A and B are the same run" in capsys.readouterr().out) == same


def test_a_regression_of_as_much_as_asked_is_exit_code_4() -> None:
    code, said = refusal(commands.report_compare, "fast", "slow", fail_on="3%")
    assert (code, said) == (4, "1 regressed by 3% or more: alexnet local x1")
    commands.report_compare.body(Context(), "fast", "slow", fail_on="10 %")
    commands.report_compare.body(Context(), "slow", "fast", fail_on="3%")


def test_a_doubtful_point_is_counted_and_passes(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = Note(NoteKind.OTHER_PROGRAMS, {"cores": 1.3, "of": 2}, {"host": "vm"})
    busy = [dataclasses.replace(one, notes=(note,)) for one in quiet(1.5)]
    stored(runs / "busy", *busy, *quiet(devices=2))
    commands.report_compare.body(Context(), "fast", "busy", fail_on="3%")
    said = capsys.readouterr().out
    assert "2 points: 1 doubtful, 1 inconclusive." in said
    assert said.endswith(
        "1 of 2 points is doubtful: --fail-on does not count it. "
        "Measure it again on an idle machine\n"
    )
    # A point that is lost still counts.
    stored(runs / "less", *busy)
    assert refusal(commands.report_compare, "fast", "less", fail_on="3%")[0] == 4


def test_a_point_that_lost_its_number_is_exit_code_4() -> None:
    code, said = refusal(commands.report_compare, "fast", "gone", fail_on="50%")
    assert (code, said) == (4, "1 without a result in B: alexnet local x2")
    commands.report_compare.body(Context(), "gone", "fast", fail_on="3%")


@pytest.mark.program
def test_the_exit_code_reaches_the_shell(runs: Path) -> None:
    done = fab("report.compare", f"{runs}/fast", f"{runs}/slow", "--fail-on", "3%")
    assert done.returncode == 4
    assert done.stderr == "1 regressed by 3% or more: alexnet local x1\n"
    done = fab("report.compare", f"{runs}/fast", f"{runs}/fast", "--fail-on", "3%")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("text", ["3", "%", "x%", "-3%", "nan%", "100%", "1e400%"])
def test_what_is_no_percentage_is_exit_code_2(text: str) -> None:
    code, said = refusal(commands.report_compare, "fast", "slow", fail_on=text)
    assert code == 2
    assert said.startswith("error: --fail-on: expected a ")


def test_what_a_gate_could_not_see_is_told(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands.report_compare.body(Context(), "fast", "fast", fail_on="0.1%")
    said = capsys.readouterr().out
    assert "2 of 2 points are inconclusive: a loss of 0.1% would not be significant" in said


def test_unlike_runs_are_refused_unless_asked_for(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "slow" / "environment.json").write_text('{"processor": "P2", "commit": "b"}')
    code, said = refusal(commands.report_compare, "fast", "slow")
    assert code == 2
    assert said == (
        "error: fast and slow: not comparable: processor (P1 / P2). "
        "Compare anyway with 'fab report.compare fast slow --across'"
    )
    said = capsys.readouterr().out
    assert said == "relevant difference: processor (P1 / P2).\nknown for B only: commit.\n"
    commands.report_compare.body(Context(), "fast", "slow", across=True)
    assert "relevant difference: processor (P1 / P2)." in capsys.readouterr().out


def test_one_changed_setting_is_the_heading(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands.report_compare.body(Context(), "fast", "other", markdown=f"{runs}/c.md")
    said = capsys.readouterr().out
    assert "lr 0.01 (default) → 0.5: other (B) vs fast (A), images/s" in said
    assert "differs in" not in said
    text = (runs / "c.md").read_text(encoding="utf-8")
    assert text.startswith("# lr 0.01 (default) → 0.5: other (B) vs fast (A), images/s\n")


def test_a_baseline_and_a_run_with_another_setting_are_paired(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.report_baseline.body(Context(), "main", run="fast")
    commands.report_compare.body(Context(), "main", "other")
    assert "lr 0.01 (default) → 0.5: other (B) vs main (A), images/s" in capsys.readouterr().out


def test_two_changed_settings_are_refused_with_the_command(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(runs / "both", *quiet(lr=0.5, dtype="bfloat16"))
    code, said = refusal(commands.report_compare, "fast", "both")
    assert code == 2
    assert said == (
        "error: fast, both: expected a point with the same settings in both runs, or the same "
        "change of one setting in every point, got dtype float32 (default) → bfloat16 and "
        "lr 0.01 (default) → 0.5 in alexnet local x1. "
        "Compare anyway with 'fab report.compare fast both --across'"
    )
    commands.report_compare.body(Context(), "fast", "both", across=True)
    assert (
        "alexnet local x1: differs in dtype float32 (default) → bfloat16, lr 0.01 (default) → 0.5."
        in capsys.readouterr().out
    )


def test_the_comparison_is_written_where_asked(runs: Path) -> None:
    paths = {"csv": f"{runs}/c.csv", "markdown": f"{runs}/c.md"}
    commands.report_compare.body(Context(), "fast", "slow", **paths)
    assert (runs / "c.csv").read_text().startswith("point,unit,a,b,ratio,")
    assert (runs / "c.md").read_text().startswith("# slow (B) vs fast (A)")
    code, said = refusal(commands.report_compare, "fast", "slow", csv=f"{runs}/c.csv/c.csv")
    assert code == 2
    assert "c.csv/c.csv" in said


def test_a_baseline_is_kept_listed_compared_with_and_removed(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.report_baselines.body(Context())
    assert "no baseline yet" in capsys.readouterr().out
    commands.report_baseline.body(Context(), "main", run="fast")
    commands.report_baselines.body(Context())
    assert "main: run fast, saved " in capsys.readouterr().out
    code, _ = refusal(commands.report_compare, "main", "slow", fail_on="3%")
    assert code == 4
    code, said = refusal(commands.report_baseline, "main", run="fast", remove="yes")
    assert (code, said) == (2, "error: --remove: expected no --run, got one. Omit --run")
    commands.report_baseline.body(Context(), "main", remove=True)
    assert refusal(commands.report_compare, "main", "slow")[0] == 2


def test_the_history_skips_bad_runs_with_a_line_each(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(runs / "bad").write_text('{"schema": 99}\n')
    commands.report_history.body(Context(), point="alexnet local x1", chart=f"{runs}/chart")
    said = capsys.readouterr().out
    assert said.count("skipped: ") == 1
    assert f"{runs}/bad/records.jsonl:1: " in said
    assert all(name in said for name in ("fast", "slow", "gone", "other"))
    assert {path.name for path in runs.glob("chart.*")} == {"chart.svg", "chart.png"}


def test_the_history_of_no_point_is_refused(runs: Path) -> None:
    for options in ({}, {"point": "alexnet"}, {"point": "vgg"}, {"point": "x1", "runs": "nix"}):
        assert refusal(commands.report_history, **options)[0] == 2
    code, said = refusal(commands.report_history, point="x1", chart=f"{runs}/fast/records.jsonl/no")
    assert code == 2
    assert "records.jsonl/no: cannot be written" in said
