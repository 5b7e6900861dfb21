"""`report.figure` and `report.table` from the command line."""

from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import tasks.report
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal
from tests.support.runs.comparisons import quiet
from tests.support.runs.stores import stored

# Invoke types a task as the function it wraps.
commands: Any = tasks.report


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a run named mine."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tasks.report, "RUNS", tmp_path)
    stored(tmp_path / "mine", *quiet(), *quiet(devices=2))
    return tmp_path / "mine"


def test_a_figure_goes_below_the_report_with_its_captions(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.report_figure.body(Context(), run="mine", panel="efficiency")
    names = sorted(path.name for path in (run / "report" / "paper").iterdir())
    assert names == ["efficiency-caption.tex", "efficiency-caption.txt", "efficiency.pdf"]
    assert "Efficiency (% of ideal) vs 1 device" in capsys.readouterr().out


def test_a_table_is_printed_or_written(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands.report_table.body(Context(), run="mine", format="csv")
    printed = capsys.readouterr().out
    assert printed.startswith("network,kvstore,settings,devices,images_per_second,")
    commands.report_table.body(Context(), run="mine", format="csv", output=str(run / "a.csv"))
    assert (run / "a.csv").read_text() == printed


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"panel": "effciency"}, "unknown panel 'effciency'; did you mean 'efficiency'?"),
        ({"width": "8m"}, "--width: expected a width of 50 to 400 mm"),
        ({"network": "alexnt"}, "unknown network 'alexnt'; did you mean 'alexnet'?"),
        ({"format": "eps"}, "unknown format 'eps'"),
        ({"output": "a.eps"}, "--output: expected a file that ends in .pdf, .svg, .png"),
        ({"speedup_baseline": "nccl x4", "panel": "speedup"}, "no point has a result on nccl x4"),
    ],
)
def test_a_wrong_option_of_a_figure_is_one_line(options: dict[str, str], expected: str) -> None:
    code, line = refusal(commands.report_figure, run="mine", **options)
    assert code == 2
    assert expected in line
    assert "\n" not in line


@pytest.mark.parametrize("task", [commands.report_figure, commands.report_table])
def test_an_output_that_cannot_be_written_names_the_option(task: Any, run: Path) -> None:
    code, line = refusal(task, run="mine", output=f"{run}/records.jsonl/a.pdf")
    assert code == 2
    assert line.endswith("Choose another folder with --output")


def test_an_unknown_format_of_a_table_is_refused() -> None:
    code, line = refusal(commands.report_table, run="mine", format="tex")
    assert (code, "unknown format 'tex'" in line) == (2, True)
