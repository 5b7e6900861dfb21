"""The page shows and verifies the history of points in the saved baselines."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from plots.check import verify_report
from plots.page.baselines import history_table
from plots.page.page import page
from plots.report import build, choice
from results.comparison.baselines import save
from results.cost.cost import costs
from results.integrity import digest
from results.record import Record
from results.run import load
from results.run_folder import ORIGIN
from tests.support.pages.pages import HOSTILE, run_of
from tests.support.runs.records import record
from tests.support.runs.stores import stored


def dated(day: int, seconds: float, **fields: object) -> Record:
    found = record([[1, seconds, seconds + 0.1]], **fields)
    return dataclasses.replace(found, started=f"2026-01-{day:02}T00:00:00+00:00")


def test_points_have_their_earlier_results_by_date_with_the_changes() -> None:
    now = run_of(dated(3, 2.0), dated(3, 2.0, devices=2), folder=Path("now"))
    first = run_of(dated(1, 4.0), folder=Path(HOSTILE.replace("/", "")))
    later = run_of(dated(2, 3.0, steps_per_window=5), folder=Path("later"))
    found = history_table(now, [later, first])
    named = [dict(zip(found.header, cells, strict=True)) for cells in found.rows]
    assert {one["point"] for one in named} == {"alexnet local x1"}
    assert [one["date"][:10] for one in named] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert [one["run"] for one in named][1:] == ["later", "now"]
    assert named[1]["changed since the line above"] == "steps_per_window 1 → 5"
    assert named[2]["throughput"].endswith(" images/s")
    text = page(now, baselines=[first])
    assert 'id="history"' in text
    assert "<script>alert" not in text
    assert 'id="history"' not in page(now)


def test_a_copy_of_this_run_and_runs_without_its_points_are_no_history() -> None:
    now = run_of(dated(3, 2.0))
    other = run_of(dated(1, 2.0, devices=4), folder=Path("other"))
    failed = run_of(dated(1, 2.0, status="failed"), folder=Path("failed"))
    assert history_table(now, [dataclasses.replace(now, folder=Path("copy"))]).rows == ()
    assert history_table(now, [other]).rows == ()
    assert history_table(now, [failed]).rows == ()


def test_a_report_is_verified_with_the_baselines_that_it_shows(tmp_path: Path) -> None:
    folder, saved = tmp_path / "runs" / "mine", tmp_path / "baselines"
    stored(tmp_path / "runs" / "old", dated(1, 4.0))
    stored(folder, dated(3, 2.0))
    saved.mkdir()
    save("main", load(tmp_path / "runs" / "old"), saved)
    run = load(folder)
    build(run, costs(run.rows, None, run.environment))
    assert 'id="history"' in (folder / "report" / "index.html").read_text()
    expected = digest.write(folder, "code", choice=choice(run))
    assert [verify_report(folder, expected).wrong, verify_report(folder).lacking] == [[], []]
    save("other", load(tmp_path / "runs" / "old"), saved)  # later ones do not matter
    assert verify_report(folder).lacking == []
    origin = saved / "main" / ORIGIN
    origin.write_text(json.dumps({"run": "x", "kept": "2030"}))
    shutil.rmtree(saved / "other")
    (saved / "main" / "records.jsonl").write_text("")
    result = verify_report(folder)
    assert result.wrong == []
    (line,) = result.lacking
    assert line == ("index.html: not compared: history of other baselines: main")


def test_a_run_outside_the_folder_of_runs_has_no_baselines(tmp_path: Path) -> None:
    stored(tmp_path / "mine", dated(3, 2.0))
    assert choice(load(tmp_path / "mine")).baselines == {}


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_an_unreadable_baseline_is_left_out(tmp_path: Path, content: str) -> None:
    stored(tmp_path / "runs" / "mine", dated(3, 2.0))
    bad = tmp_path / "baselines" / "bad"
    bad.mkdir(parents=True)
    (bad / "records.jsonl").write_text(content)
    (bad / ORIGIN).write_text(content)
    assert build(load(tmp_path / "runs" / "mine"))
