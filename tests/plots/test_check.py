"""The checked parts of a report, and the prices that the check uses."""

import shutil
from pathlib import Path

import pytest

from plots.check import verify_report
from plots.report import build, choice
from results.cost.prices import load_prices
from results.errors import StoreError
from results.integrity import digest
from results.run import load
from tasks.report import costs_of
from tests.support.runs.records import record
from tests.support.runs.stores import stored


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    stored(folder / "run", record([[1, 2.0, 2.1]]))
    (folder / "mine.toml").write_text("[[price]]\nper_hour=2\ncurrency='EUR'")
    found, prices = load(folder / "run"), load_prices(folder / "mine.toml")
    build(found, costs_of(found, prices))
    digest.write(folder / "run", "code", prices=prices, choice=choice(found))
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "own")) / "run"


def test_it_holds_though_the_file_of_prices_is_gone(run: Path) -> None:
    (run.parent / "mine.toml").unlink()
    assert "images_per_EUR" in (run / "report" / "results.csv").read_text()
    assert verify_report(run).wrong == []


def test_other_prices_give_other_cells(run: Path) -> None:
    (run.parent / "mine.toml").write_text("[[price]]\nper_hour=3\ncurrency='EUR'")
    wrong = verify_report(run, prices=load_prices(run.parent / "mine.toml")).wrong
    assert any(
        "results.csv row 1 (alexnet local x1), images_per_EUR: expected" in one for one in wrong
    )


def test_without_the_prices_of_its_cells_one_line_says_so(run: Path) -> None:
    (run / "report" / "digests.json").unlink()
    (wrong,) = verify_report(run).wrong
    assert wrong.startswith("results.csv: has cost columns, but their prices are unknown")
    assert verify_report(run, prices=load_prices(run.parent / "mine.toml")).wrong == []


def test_what_is_of_no_run_is_named_and_fails_nothing(run: Path) -> None:
    for name in (".lock", "report/exports/x/mlflow.json"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).touch()
    assert not any("not part of a run" in one for one in verify_report(run).unchecked)
    for name in ("evil.json", "dir/z", "a\nb", "logs/.hidden"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).touch()
    (run / "logs" / "link").symlink_to("/etc/passwd")
    found = verify_report(run)
    assert found.wrong == []
    names = r"'a\nb', dir/z, evil.json, logs/.hidden, logs/link"
    assert f"{names}: not part of a run, and not in the digest" in found.unchecked


def test_what_is_not_derived_again_is_named(run: Path) -> None:
    (run / "report" / "ab.md").write_text("# A and B")
    (run / "report" / "results.csv").unlink()
    found = verify_report(run)
    assert found.rows == 0
    assert "report/results.csv: missing" in found.unchecked
    (others,) = (one for one in found.unchecked if one.endswith("report/digests.json only"))
    assert others.startswith("ab.md: ")


@pytest.mark.parametrize("number", ['"3"', "3.0", "true", "null", "[3]"])
def test_a_format_that_is_no_whole_number_is_not_accepted(run: Path, number: str) -> None:
    path = run / "report" / "digests.json"
    path.write_text(path.read_text().replace(f'"format": {digest.FORMAT}', f'"format": {number}'))
    with pytest.raises(StoreError, match="format: expected a whole number"):
        digest.load(run)


def test_a_file_in_place_of_the_report_folder_is_wrong(run: Path) -> None:
    shutil.rmtree(run / "report")
    assert verify_report(run).wrong == []  # no report is nothing to check
    (run / "report").touch()
    assert verify_report(run).wrong[-1].startswith("report: expected a folder, got a file. ")
