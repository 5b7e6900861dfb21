"""Of a run whose files are not as they were written, what can be read is shown, and what not."""

import dataclasses
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
from im2rec_tools.files import write_whole
from launch.hosts import ROOT
from results.catalogue import entry
from results.run import load
from tests.test_scaling import record
from tests.test_store import stored

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
    [("key", []), ("name", 1), ("repeat", [[]]), ("hosts", {}), ("code_hash", None), ("new", 1)],
)
def test_an_odd_list_of_what_was_asked_is_told_and_every_record_counts(
    tmp_path: Path, field: str, value: object
) -> None:
    asked = run(tmp_path) / "asked.json"
    asked.write_text(json.dumps([json.loads(asked.read_text())[0] | {field: value}]))
    found = load(tmp_path)
    assert len(found.rows) == 2
    assert "asked.json: not a list of points" in found.troubles[0]
    assert "asked.json: not a list of points" in entry(tmp_path).problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("description", 1e308),
        ("date", {"x": 1}),
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
        ('"repeat": 0', '"repeat": [0]', "identity: repeat"),
        ('"status": "ok"', '"status": 3', "status 3"),
    ],
)
def test_a_line_that_cannot_be_read_leaves_the_others_of_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    log = run(tmp_path) / "records.jsonl"
    log.write_text(log.read_text().replace(old, new, 1))
    found = entry(tmp_path)
    assert (found.ok, found.missing, found.unread) == (1, 1, 1)
    assert said in found.problem
    fabfile.results_show.body(Context(), str(tmp_path))
    shown = capsys.readouterr().out
    assert "points:      1 ok, 1 missing, 1 unreadable" in shown
    assert said in shown


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole(pipe, "a table")
    reader.join(10)
    assert got == ["a table"]
    assert pipe.is_fifo()
