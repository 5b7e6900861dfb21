"""No part of a report can prevent the others."""

from errno import ENOSPC
from importlib import import_module
from os import strerror
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit
from matplotlib.figure import Figure

from plots.figures import scaling
from plots.page import page
from tasks.report import report_build
from tests.support.paths import ROOT
from tests.support.runs.scenes import point, three
from tests.support.runs.stores import stored

FILES = {"results.csv", "report.md", "index.html", "scaling.svg", "scaling.png"}
# A function that makes a part, and the files that miss if it fails.
PARTS: dict[str, set[str]] = {
    "plots.tables.scaling.short_table": set(),
    "plots.tables.scaling.summary_items": set(),
    "plots.tables.scaling.provenance": set(),
    "plots.tables.scaling.settings_line": set(),
    "plots.tables.scaling.column_notes": set(),
    "plots.tables.scaling.point_notes": set(),
    "plots.tables.scaling.failure_items": set(),
    "plots.report.table_csv": {"results.csv"},
    "plots.report.document": {"report.md"},
    "plots.report.page": {"index.html"},
    "plots.figures.pictures.caption": {"scaling.svg", "scaling.png"},
    "plots.figures.scaling.save": {"scaling.svg", "scaling.png"},
    "plots.markdown.provenance": set(),
    "plots.markdown.summary_items": set(),
    "plots.markdown.settings_line": set(),
    "plots.markdown.failure_items": set(),
    "plots.markdown.shown_environment": set(),
    "plots.page.page.summary_items": set(),
    "plots.page.page.column_notes": set(),
    "plots.page.page.point_notes": set(),
    "plots.page.page.packed_details": {"index.html"},
    "plots.page.page.panel_data": {"index.html"},
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose figures take no time to draw."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(scaling, "draw", lambda *_: Figure())
    monkeypatch.setattr(page, "get_plotlyjs", str)
    stored(tmp_path / "run", *three(), point(8, 1, status="hung", devices_per_host=8))
    return tmp_path / "run"


def built(run: Path) -> tuple[int, str]:
    with pytest.raises(Exit) as caught:
        report_build.body(Context(), run=str(run))
    return caught.value.code, str(caught.value)


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_that_fails_is_named_and_all_others_are_there(
    part: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise IndexError("out of its range")

    module, _, name = part.rpartition(".")
    monkeypatch.setattr(import_module(module), name, fails)
    code, line = built(run)
    assert code == 1
    assert "IndexError: out of its range" in line
    assert "This is a bug in mxscale" in line
    assert {path.name for path in (run / "report").iterdir()} >= FILES - PARTS[part]
    out = capsys.readouterr().out
    assert ("alexnet" in out) or part.endswith("short_table")
    assert "digest: sha256:" in out


def test_a_run_whose_parts_are_whole_is_incomplete_only(run: Path) -> None:
    assert built(run)[0] == 5


def test_a_figure_without_its_font_file_costs_only_the_figure(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("DejaVuSans.ttf")

    monkeypatch.setattr(scaling, "draw", fails)
    code, line = built(run)
    assert code == 1
    assert "figure scaling: FileNotFoundError: DejaVuSans.ttf" in line
    assert {path.name for path in (run / "report").iterdir()} >= {"results.csv", "index.html"}


def test_a_folder_that_cannot_take_a_figure_is_no_bug(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(ENOSPC, strerror(ENOSPC))

    monkeypatch.setattr(scaling, "save", fails)
    code, line = built(run)
    assert code == 2
    assert "report: cannot be written (No space left on device)" in line
    assert "alexnet" in capsys.readouterr().out
