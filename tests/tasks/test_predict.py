"""`report.predict` from the command line, and its predictions in a report."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

from plots.check import verify_report
from results.integrity.digest import run_digests
from results.store import Store
from tasks import report
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal
from tests.support.runs.records import PUBLISHED, points

predict: Any = report.report_predict


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run of a published table up to 16 devices, one host."""
    monkeypatch.chdir(ROOT)
    folder = tmp_path / "mine"
    measure(folder, 16)
    return folder


def measure(folder: Path, most: int) -> None:
    store = Store(folder)
    done = {one.name for one in store.done()}
    for one in points({n: rate for n, rate in PUBLISHED.items() if n <= most}):
        if one.identity.name not in done:
            store.append(one)
    store.close()


def printed(capsys: pytest.CaptureFixture[str], **options: str) -> str:
    capsys.readouterr()
    predict.body(Context(), **options)
    return capsys.readouterr().out


def test_a_prediction_is_printed_and_stored_and_scored(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = printed(capsys, run=str(run), devices="64", efficiency="50%")
    assert "PREDICTION, not measured: alexnet device" in out
    assert "Measure two hosts" in out
    assert f"{run}/report/predictions.csv" in out
    assert "measured 7,946" not in out
    assert not (run / "report" / "results.csv").exists()
    measure(run, 32)
    assert "predicted 8,220, measured 7,946: inside 95 %" in printed(
        capsys, run=str(run), devices="64"
    )


def test_a_report_shows_predictions_and_verifies_after_later_ones(run: Path) -> None:
    predict.body(Context(), run=str(run), devices="64")
    report.build_report(run)
    digest = run_digests(run).digest
    text = (run / "report" / "report.md").read_text(encoding="utf-8")
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert "## Predictions" in text
    assert '<section id="predictions">' in page
    assert "PREDICTION" in (run / "report" / "scaling.svg").read_text(encoding="utf-8")
    assert "PREDICTION" not in (run / "report" / "results.csv").read_text(encoding="utf-8")
    predict.body(Context(), run=str(run), devices="128")
    result = verify_report(run, digest)
    assert (result.wrong, result.lacking) == ([], [])
    assert "report/predictions.jsonl: written by report.predict" in result.unchecked


def test_a_published_table_is_predicted_without_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    out = printed(capsys, run="reference:tutorial", devices="256", up_to="16")
    assert "Of 12 measured predictions, 11 are inside the 80 % interval and 12 inside" in out
    assert "predictions.csv" not in out


def test_the_guide_shows_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "how-to" / "predict.md").read_text(encoding="utf-8")
    command, shown = page.split("```")[1], page.split("```")[3]
    words = shlex.split(command.splitlines()[1])
    assert words[:3] == [".venv/bin/fab", "report.predict", "reference:tutorial"]
    names = [word.removeprefix("--").replace("-", "_") for word in words[3::2]]
    out = printed(capsys, run=words[2], **dict(zip(names, words[4::2], strict=True)))
    lines = [line.rstrip() for line in out.splitlines()]
    assert [line for line in shown.splitlines() if line not in {"...", *lines}] == []


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "report.predict: expected --devices or --efficiency, got none"),
        ({"devices": "8"}, "--devices 8 of alexnet: expected more than the 16 measured"),
        ({"devices": "40"}, "expected a multiple of a full host (16 devices), got 40"),
        ({"devices": "x"}, "--devices: expected a whole number, 1 to 10000, got 'x'"),
        ({"devices": "32", "bandwidth": "fast"}, "--bandwidth: expected a bandwidth above 0"),
        ({"devices": "32", "servers": "0"}, "--servers: expected a whole number, 1 to 10000"),
        ({"devices": "32", "batch": "16"}, "--batch 16 of alexnet: expected the point on one"),
        ({"devices": "32", "up_to": "1"}, "alexnet: expected two points or more, got one"),
        ({"devices": "32", "point": "vgg"}, "--point: expected points of training, got none"),
        ({"efficiency": "130%"}, "--efficiency: expected a percentage above 0"),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_one_line(
    run: Path, options: dict[str, str], line: str
) -> None:
    code, text = refusal(report.report_predict, run=str(run), **options)
    assert code == 2
    assert line in text
    assert "\n" not in text
    assert not (run / "report").exists()
