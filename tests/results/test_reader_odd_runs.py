"""Of a run with changed files, readable parts are shown, others are named."""

import dataclasses
import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
from im2rec_tools.files import write_text
from launch.hosts import ROOT
from plots.markdown import document
from plots.tables.comparison import markdown, remarks
from results.comparison.compare import compare
from results.cost.energy import power
from results.exports.point import series
from results.integrity.catalog import run_entry
from results.repeat import summarize
from results.run import load
from tests.support.runs.records import record
from tests.support.runs.stores import stored

fabfile: Any = _fabfile


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run(folder: Path) -> Path:
    one, two = record([[1, 2.0, 2.1]]), record([[1, 1.0, 1.1]], network="vgg")
    stored(folder, one, two)
    asked = [dataclasses.asdict(one.identity) for one in (one, two)]
    (folder / "asked.json").write_text(json.dumps(asked))
    return folder


@pytest.mark.parametrize(
    ("field", "value"),
    [("key", []), ("name", 1), ("repeat", [[]]), ("hosts", {}), ("code_hash", None)],
)
def test_an_odd_list_of_what_was_asked_is_told_and_every_record_counts(
    tmp_path: Path, field: str, value: object
) -> None:
    asked = run(tmp_path) / "asked.json"
    asked.write_text(json.dumps([json.loads(asked.read_text())[0] | {field: value}]))
    found = load(tmp_path)
    assert len(found.rows) == 2
    assert "asked.json: expected a list of points" in found.troubles[0]
    assert "asked.json: expected a list of points" in run_entry(tmp_path).problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("description", 1e308),
        ("date", {"x": 1}),
        ("command", "fab bench.sweep"),
        ("command", ["fab", 1]),
        ("hosts", ["a", "b"]),
        ("hosts", {"a": None}),
        ("hosts", {"a": {"cores": 4}}),
        ("hosts", {"a": {"gpus": ["V100"]}}),
        ("hosts", {"a": {"memory_mib": "much"}}),
    ],
)
def test_odd_facts_of_machines_are_told_and_left_out(
    tmp_path: Path, name: str, value: object
) -> None:
    (run(tmp_path) / "environment.json").write_text(json.dumps({"commit": "abc", name: value}))
    found = load(tmp_path)
    assert (len(found.rows), found.environment) == (2, {})
    assert f"environment.json: {name}" in found.troubles[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"schema": ', '"schema": 9', "written by a newer version"),
        ('"repeat": 0', '"repeat": [0]', "`$.repeat`"),
        ('"status": "ok"', '"status": 3', "status 3"),
    ],
)
def test_a_line_that_cannot_be_read_leaves_the_others_of_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    log = run(tmp_path) / "records.jsonl"
    log.write_text(log.read_text().replace(old, new, 1))
    found = run_entry(tmp_path)
    assert (found.ok, found.missing, found.unread) == (1, 1, 1)
    assert said in found.problem
    fabfile.results.results_show.body(Context(), str(tmp_path))
    shown = capsys.readouterr().out
    assert "points:      1 ok, 1 missing, 1 unreadable" in shown
    assert said in shown


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_text(pipe, "a table")
    reader.join(10)
    assert got == ["a table"]
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    "machines",
    [
        {"h": []},
        {"h": ["a", "b"]},
        {"h": [{"at": 1.0}, {"at": 2.0}]},
        {"h": [{"at": "1", "machine": "m"}] * 2},
        {"h": [{"at": 1.0, "machine": "m", "energy": [3]}] * 2},
        {"h": [{"at": at, "machine": "m", "energy": {"rapl": [at]}} for at in (1.0, 9.0)]},
        {"h": [{"at": at, "machine": "m", "energy": {"rapl": math.inf}} for at in (1.0, 9.0)]},
    ],
)
def test_odd_counts_of_machines_are_no_joules(machines: dict[str, Any]) -> None:
    one = record([[1, 2.0, 2.1]])
    identity = dataclasses.replace(one.identity, hosts=("h",))
    found = power(summarize(dataclasses.replace(one, identity=identity, machines=machines)))
    assert found == "the recorded energy is damaged"


@pytest.mark.parametrize("end", [1e308, -1.0, math.nan])
def test_ends_that_are_no_times_are_told_from_0_on(tmp_path: Path, end: float) -> None:
    one = record([[1, 2.0, 2.5]])
    (rank,) = one.ranks
    odd = dataclasses.replace(rank, ends=(1.0, 2.0, end))
    stored(tmp_path, dataclasses.replace(one, ranks=(odd,)))
    (found,) = series(tmp_path).values()
    assert found.ends == (1.0, 3.0, 5.5)


def test_a_comparison_says_what_its_runs_lack(tmp_path: Path) -> None:
    whole = load(run(tmp_path / "a"))
    log = run(tmp_path / "b") / "records.jsonl"
    log.write_text(log.read_text().replace('"schema": ', '"schema": 9', 1))
    told = "\n".join(remarks(compare(whole, load(log.parent))))
    assert "B: unreadable, skipped: " in told
    assert "B: not measured yet: alexnet local x1." in told
    assert "A could not" not in told


def test_what_a_machine_says_of_itself_is_told_in_one_line(tmp_path: Path) -> None:
    one, other = (load(run(tmp_path / name)) for name in "ab")
    one.environment["processor"], other.environment["processor"] = "a\nb", "c"
    assert [str(each) for each in compare(one, other).forbidding] == ["processor (a b / c)"]


def test_what_hosts_and_logs_say_is_no_html_and_one_line_in_markdown(tmp_path: Path) -> None:
    said = "<script>alert(1)</script>\nTraceback | boom"
    bad = dataclasses.replace(record([[1, 2.0]], status="failed"), message=said)
    stored(tmp_path / "run", bad, record([[1, 2.0, 2.1]], network="vgg"))
    (tmp_path / "run" / "environment.json").write_text(json.dumps({"description": said}))
    found = load(tmp_path / "run")
    for page in (document(found), markdown(compare(found, found))):
        assert r"&lt;script>alert(1)&lt;/script> Traceback \| boom" in page
        assert "<script" not in page.replace(r"\<script", "")
