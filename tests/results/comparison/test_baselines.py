"""Saved baselines are copies by name; a name means one run or is rejected."""

from pathlib import Path

import pytest

from results.comparison.baselines import describe, names, open_run, remove, save
from results.errors import StoreError
from results.run import load
from tests.support.runs.comparisons import quiet
from tests.support.runs.stores import stored


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return a folder with the runs `one` and `two`."""
    for name in ("one", "two"):
        stored(tmp_path / "runs" / name, *quiet())
        (tmp_path / "runs" / name / "environment.json").write_text('{"commit": "abc"}')
        (tmp_path / "runs" / name / "logs").mkdir()
    return tmp_path / "runs"


def test_a_baseline_outlives_its_run(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    before = load(runs / "one")
    assert save("main", before, folder) == folder / "main"
    stored(runs / "one", *quiet(2.0))
    kept = open_run("main", runs, folder)
    assert kept.rows == before.rows
    assert kept.rows != load(runs / "one").rows
    assert (kept.name, kept.environment) == ("main", {"commit": "abc"})
    assert {path.name for path in (folder / "main").iterdir()} == {
        "records.jsonl",
        "environment.json",
        "baseline.json",
    }
    assert describe("main", folder).startswith("main: run one, saved 20")
    assert describe("main", folder).endswith(", 1 of 1 points with a result")


def test_a_baseline_is_replaced_only_after_it_is_removed(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    save("main", load(runs / "one"), folder)
    with pytest.raises(StoreError, match=r"main: already exists\. Remove it first with 'fab"):
        save("main", load(runs / "two"), folder)
    remove("main", folder)
    assert names(folder) == []
    assert list(folder.iterdir()) == []
    with pytest.raises(StoreError, match=r"'main'\. Known: none saved yet"):
        remove("main", folder)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", ".hidden", "a b", "a:b", "tutorial"]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, runs: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected a name of letters"):
        save(name, load(runs / "one"), tmp_path / "baselines")
    assert not (tmp_path / "baselines").exists()


def test_a_folder_that_cannot_be_written_is_one_line(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written") as caught:
        save("main", load(runs / "one"), tmp_path / "file")
    assert "\n" not in str(caught.value)


def test_a_name_of_a_run_and_a_baseline_has_to_say_which(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    save("one", load(runs / "two"), folder)
    with pytest.raises(StoreError, match=r"the name of a run and a baseline\. Give run:one or "):
        open_run("one", runs, folder)
    assert open_run("run:one", runs, folder).folder == runs / "one"
    assert open_run("baseline:one", runs, folder).folder == folder / "one"
    assert open_run("two", runs, folder).folder == runs / "two"
    assert open_run("tutorial", runs, folder).name == "tutorial"
    assert open_run("reference:tutorial", runs, folder).name == "tutorial"


def test_an_unknown_name_is_told_with_those_there_are(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    save("main", load(runs / "two"), folder)
    with pytest.raises(StoreError) as caught:
        open_run("tow", runs, folder)
    assert str(caught.value) == (
        "unknown run, baseline or reference 'tow'; did you mean 'two'? Known: one, two, main, "
        "tutorial, upstream-readme, or a path"
    )
    for name in ("baseline:one", "run:main", "reference:one", "run:../runs/one", "baseline:"):
        with pytest.raises(StoreError, match="unknown"):
            open_run(name, runs, folder)


def test_a_damaged_baseline_is_listed_with_its_reason(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "baselines"
    save("main", load(runs / "one"), folder)
    (folder / "main" / "records.jsonl").write_text('{"schema": 99}\n')
    assert names(folder) == ["main"]
    assert describe("main", folder).startswith("main: unreadable: ")
