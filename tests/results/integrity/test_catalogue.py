"""Runs of a folder are listed quickly in any state, and removed with care."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

import fabfile as _fabfile
import results.integrity.catalog
from launch.hosts import ROOT
from results.comparison.differences import host_facts
from results.errors import StoreError
from results.integrity.catalog import RunEntry, list_runs
from results.reader import point_statuses, record_headers
from results.store import Store, read_records, remove
from tests.support.programs.commands import refusal
from tests.support.runs.records import record
from tests.support.runs.stores import stored

fabfile: Any = _fabfile


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def listed(folder: Path) -> dict[str, RunEntry]:
    return {one.name: one for one in list_runs(folder, folder / "index.json")}


def run(folder: Path, **environment: str) -> Path:
    """Return two good points, a failed one, and one that is missing."""
    good, bad = record([[1, 2.0, 2.1]]), record([[1, 2.0]], network="vgg", status="hung")
    other = record([[1, 1.2, 1.0]] * 2, devices=2, kvstore="dist_sync", engine="fake")
    stored(folder, dataclasses.replace(bad, status="failed"), good, other, bad)
    missing = dataclasses.replace(good.identity, name="gone", key="gone")
    asked = [one.identity for one in (good, other, bad)] + [missing]
    (folder / "asked.json").write_text(json.dumps([dataclasses.asdict(one) for one in asked]))
    (folder / "environment.json").write_text(json.dumps(environment))
    return folder


def test_a_run_is_a_line_of_what_it_was_and_how_far_it_came(tmp_path: Path) -> None:
    run(tmp_path / "one", date="2026-01-02T03:04:05+00:00", commit="abc")
    found = listed(tmp_path)["one"]
    assert (found.date, found.commit) == ("2026-01-02T03:04:05+00:00", "abc")
    assert (found.ok, found.failed, found.missing, found.hosts) == (2, 1, 1, 1)
    assert found.networks == ("vgg-16", "alexnet")
    assert (found.rehearsal, found.imported, found.problem) == (True, False, "")
    size = sum(path.stat().st_size for path in (tmp_path / "one").iterdir())
    assert found.bytes == size


def test_points_that_lack_some_repeats_are_no_missing_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (record([[1, 2.0, 2.1]], devices=n) for n in (1, 2))
    stored(tmp_path / "mine", one, other)
    second = [dataclasses.replace(each.identity, repeat=1) for each in (one, other)]
    third = record([[1, 2.0]], devices=3).identity
    asked = [one.identity, other.identity, *second, third]
    stored(tmp_path / "mine", dataclasses.replace(one, identity=second[0]))
    text = json.dumps([dataclasses.asdict(each) for each in asked])
    (tmp_path / "mine" / "asked.json").write_text(text)
    found = listed(tmp_path)["mine"]
    assert (found.ok, found.failed, found.missing, found.partial) == (1, 0, 1, 1)
    fabfile.results.results_show.body(Context(), run=str(tmp_path / "mine"))
    shown = capsys.readouterr().out
    assert re.search("points: +1 ok, 1 missing, 1 partial", shown)
    assert re.search("repeats: +3 ok of 5", shown)


def test_the_newest_run_is_first(tmp_path: Path) -> None:
    for name, year in (("a", 2024), ("b", 2026), ("c", 2025)):
        run(tmp_path / name, date=f"{year}-01-01")
    assert list(listed(tmp_path)) == ["b", "c", "a"]


def test_the_front_of_a_record_is_what_the_whole_of_it_says(tmp_path: Path) -> None:
    odd = dataclasses.replace(
        record([[1, 2.0]]), message='said "a", "ranks": [1], and more', source='log "x"'
    )
    stored(tmp_path, record([[1, 2.0, 3.0]] * 3, devices=3, kvstore="dist_sync"), odd)
    for front, whole in zip(record_headers(tmp_path), read_records(tmp_path), strict=True):
        assert front.identity == whole.identity
        assert (front.status, front.message) == (whole.status, whole.message)
        assert (front.network, front.source) == (whole.trial.label, whole.source)


def test_points_have_their_repeats_and_the_status_of_the_one_that_is_not_good(
    tmp_path: Path,
) -> None:
    bad = record([[1, 2.0]], repeat=1, status="lost")
    stored(tmp_path, record([[1, 2.0]], repeat=0), bad, record([[1, 3.0]], repeat=2))
    (point,) = point_statuses(tmp_path, record_headers(tmp_path))
    assert (point.status, point.message, point.good, point.repeats) == ("lost", "broken", 2, 3)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("records.jsonl", '{"schema": 99}\n', "records.jsonl:1: .*newer version"),
        ("records.jsonl", '{"schema": 1}\n', "records.jsonl:1: unreadable record: field 'trial'"),
        ("records.jsonl", "[3]\n", "records.jsonl:1: unreadable record: expected a JSON"),
        ("asked.json", "{", "asked.json: expected JSON; "),
        ("asked.json", "[1]", "asked.json: expected a list of points; "),
        ("environment.json", "[]", "environment.json: expected a JSON dict"),
    ],
)
def test_a_broken_run_is_listed_with_its_reason(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    run(tmp_path / "good")
    (run(tmp_path / "broken") / name).write_text(text)
    found = listed(tmp_path)
    assert found["good"].problem == ""
    with pytest.raises(StoreError, match=said):
        raise StoreError(found["broken"].problem)


def test_a_torn_record_is_no_reason(tmp_path: Path) -> None:
    log = run(tmp_path / "torn") / "records.jsonl"
    log.write_bytes(log.read_bytes()[:-300])
    found = listed(tmp_path)["torn"]
    assert (found.problem, found.ok, found.failed) == ("", 2, 1)


def test_what_has_not_changed_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "a")
    run(tmp_path / "b")
    first = listed(tmp_path)
    stored(tmp_path / "b", record([[1, 3.0, 3.0]], repeat=1))
    read_again = []

    def seen(folder: Path) -> Any:
        read_again.append(folder.name)
        return record_headers(folder)

    monkeypatch.setattr(results.integrity.catalog, "record_headers", seen)
    assert listed(tmp_path)["a"] == first["a"]
    assert read_again == ["b"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 1, "runs": {"x": 3}}', '{"schema": 9}']
)
def test_a_damaged_index_is_made_anew(tmp_path: Path, text: str) -> None:
    run(tmp_path / "a")
    listed(tmp_path)
    kept = (tmp_path / "index.json").read_text()
    (tmp_path / "index.json").write_text(text or kept.replace('"ok"', '"okay"'))
    assert listed(tmp_path)["a"].ok == 2
    assert json.loads((tmp_path / "index.json").read_text())["runs"]


def test_an_index_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    run(tmp_path / "a")
    (tmp_path / "index.json").mkdir()
    assert listed(tmp_path)["a"].ok == 2


def test_a_run_is_removed_and_what_its_links_lead_to_is_not(tmp_path: Path) -> None:
    folder = run(tmp_path / "a")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "thesis").touch()
    (folder / "logs").mkdir()
    (folder / "logs" / "out").symlink_to(tmp_path / "kept")
    (folder / "report").symlink_to(tmp_path / "kept")
    remove(folder)
    assert not folder.exists()
    assert (tmp_path / "kept" / "thesis").exists()


def test_only_runs_are_removed(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "notes.md").touch()
    stranger = run(tmp_path / "stranger")
    (stranger / "thesis").mkdir()
    (tmp_path / "link").symlink_to(run(tmp_path / "a"))
    for name, said in (
        ("none", "expected a run, with .*; has neither"),
        ("stranger", "expected only files of a run, got 'thesis'"),
        ("link", "is a link to"),
        ("a/../a", "without '..'"),
        ("gone", "no such run"),
    ):
        with pytest.raises(StoreError, match=said):
            remove(Path(os.fspath(tmp_path) + "/" + name))
    assert (tmp_path / "a").is_dir()
    assert stranger.is_dir()


def test_a_run_that_a_sweep_writes_is_not_removed(tmp_path: Path) -> None:
    store = Store(run(tmp_path / "a"))
    with pytest.raises(StoreError, match=r"another sweep \(process \d+\) is writing to it"):
        remove(tmp_path / "a")
    store.close()
    remove(tmp_path / "a")


def test_without_yes_nothing_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = run(tmp_path / "a"), run(tmp_path / "b")
    with pytest.raises(Exit) as caught:
        fabfile.results.results_rm.body(Context(), runs=f"{one},{two}")
    assert caught.value.code == 2
    assert [line[:14] for line in capsys.readouterr().out.splitlines()] == ["would remove /"] * 2
    fabfile.results.results_rm.body(Context(), runs=f"{one},{two}", yes=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", " ", "a.zip"])
def test_names_that_are_none_are_refused(name: str) -> None:
    code, _ = refusal(
        fabfile.results.results_rm, runs=f"x/y/z,{name}" if not name.strip() else name
    )
    assert code == 2


def test_what_a_run_is_and_holds_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = {name: {"cores": [0, 1], "mxnet": "1.9.1", "load": n} for n, name in enumerate("ab")}
    hosts["c"] = {"cores": [0, 1], "mxnet": "1.8.0", "load": 3}
    folder = run(tmp_path / "mine", description="a [bold] one")
    environment = {"description": "a [bold] one", "hosts": hosts}
    (folder / "environment.json").write_text(json.dumps(environment))
    fabfile.results.results_show.body(Context(), run=str(folder))
    text = capsys.readouterr().out
    for said in (
        "a [bold] one; SIMULATED",
        "2 ok, 1 failed, 1 missing",
        "0 of 1",
        "broken",
        "records.jsonl",
        "none yet; run 'fab report.build'",
        "hosts: a, b, c",
        "* mxnet: 1.9.1 (but c: 1.8.0)",
        "  cores: 0, 1\n",
    ):
        assert said in text
    assert "load" not in text


def test_hosts_that_lack_a_fact_differ_in_it() -> None:
    (fact,) = host_facts(
        {"a": {"opencv": {"version": "5"}}, "b": {"opencv": {"version": "5"}}, "c": {}}
    )
    assert (fact.name, fact.most, fact.others) == ("opencv version", "5", {"c": ""})
