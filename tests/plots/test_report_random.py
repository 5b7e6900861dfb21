"""No valid run makes a report fail; a failing part does not affect the others."""

import json
import re
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from invoke.context import Context

from plots.figures import scaling, threads
from plots.figures.caption import caption
from plots.figures.model import input_rows, is_drawn
from plots.items import plain_lines
from plots.markdown import document
from plots.page.details import packed_details
from plots.page.page import page
from plots.page.panels import panel_data
from plots.results_csv import results_frame, table_csv
from plots.summary import summary
from plots.tables.comparison import markdown as compared
from plots.tables.scaling import notes, terminal
from results.comparison.compare import compare
from results.comparison.pairs import pair_rows, same_size
from results.run import Run
from tasks.bench import bench_sweep
from tasks.report import report_build, report_show
from tests.support.programs.commands import refusal, sweep_file
from tests.support.repeats import numbers
from tests.support.runs.random_runs import run_at_random
from tests.support.runs.records import record
from tests.support.runs.stores import stored

PARTS, PICTURES = 10, 6


def runs(part: int, count: int = 50) -> list[Run]:
    random = Random(part)
    return [run_at_random(random) for _ in range(count)]


@pytest.mark.parametrize("part", numbers(PARTS, 1))
def test_five_hundred_random_runs_have_words_tables_and_page_data(part: int) -> None:
    for run in runs(part):
        assert summary(run)
        assert len(terminal(run.rows).rows) == len(run.rows)
        points, columns = notes(run.rows)
        assert plain_lines([*points, *columns], 80)
        assert document(run)
        assert table_csv(run.rows) == results_frame(run.rows).to_csv(index=False)
        json.dumps(panel_data(run))
        assert packed_details(run, 10_000)
        caption(run)


@pytest.mark.parametrize("part", numbers(PICTURES, 1))
def test_pictures_and_pages_of_random_runs_are_drawn(part: int, tmp_path: Path) -> None:
    one, other, *_ = (run for run in runs(part) if is_drawn(run.rows))
    scaling.draw(one.rows, one.name, caption(one))
    scaling.save(scaling.draw(other.rows, other.name, caption(other), over=one), tmp_path)
    for run in (one, other):
        if readings := input_rows(run.rows):
            threads.draw(readings, "", "")
    assert page(one, over=other)


@pytest.mark.parametrize("part", numbers(2, 1))
def test_random_runs_are_compared(part: int) -> None:
    for a, b in pairwise(runs(part)):
        for one, other in ((a, a), (a, b)):
            if pair_rows(one.rows, other.rows, same_size):
                assert compared(compare(one, other, same_size))


SWEEP = """
repeats = 2
device = "cpu"
engine = "fake"
fake_seconds = [0.05]
devices_per_host = 2
batch_per_device = 8
kvstore = "local"
windows = 4
precision = 0
[[points]]
network = "alexnet"
devices = [1, 2]
[[points]]
network = "tiny"
devices = 1
fake_spread = 0.9
[[points]]
network = "tiny"
devices = 2
"""


@pytest.mark.program
def test_a_network_whose_other_points_are_unsure_is_reported(tmp_path: Path) -> None:
    bench_sweep.body(Context(), sweep_file(tmp_path, SWEEP), [], run=f"{tmp_path}/run")
    text = (tmp_path / "run" / "report" / "report.md").read_text()
    assert "tiny (local) 320 images/s" in text


BROKEN = (
    "plots.tables.scaling.summary_items",
    "plots.tables.scaling.provenance",
    "plots.tables.scaling.knees",
)


@pytest.mark.parametrize("part", BROKEN)
def test_a_failing_text_does_not_cost_the_table(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = stored(tmp_path, record([[1.0, 1.0, 1.0]]))
    monkeypatch.setattr(part, fails)
    code, said = refusal(report_show, run=f"{log.parent}/", wide=True)
    assert code == 1
    assert "IndexError: out of range (tests/plots/test_report_random.py:" in said
    assert "report it with the archive of 'fab results.pack" in said
    assert re.search(r"alexnet +local +1 ", capsys.readouterr().out)


@pytest.mark.parametrize(
    "part",
    ["plots.markdown.summary_items", "plots.page.page.panel_data", "plots.figures.scaling.draw"],
)
def test_a_failing_file_of_a_report_does_not_cost_the_others(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = stored(tmp_path, record([[1.0, 1.0, 1.0]]))
    monkeypatch.setattr(part, fails)
    code, said = refusal(report_build, run=f"{log.parent}/")
    assert code == 1
    assert "IndexError: out of range" in said
    assert re.search(r"alexnet +local +1 ", capsys.readouterr().out)
    names = {path.name for path in (log.parent / "report").iterdir()}
    assert {"results.csv", "report.md", "digests.json"} <= names
    assert ("index.html" in names) is ("panel_data" not in part)


def fails(*_: object, **__: object) -> None:
    raise IndexError("out of range")
