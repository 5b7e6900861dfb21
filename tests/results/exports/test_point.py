"""The basis of every export: task, errors and fields of a point."""

import dataclasses
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from invoke.context import Context
from invoke.exceptions import Exit

from results.errors import StoreError
from results.exports import TARGETS, targets
from results.exports.point import export_points, file_name, legible, repeat_series, series, standing
from results.record import Record
from results.run import load
from results.scaling import scaling
from tasks import results
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal
from tests.support.runs.exports import bad, good, repeat, run_of

TASK: Any = results.results_export  # Invoke types a task as the function it wraps


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def standing_of(record: Record) -> str:
    (row,) = scaling([record])
    return standing(row)


def test_what_was_not_simply_measured_says_why() -> None:
    windows = [[1, 1.0, 1.0]]
    one = repeat(windows)
    assert standing_of(one) == "measured"
    assert standing_of(repeat(windows, engine="fake")) == "rehearsal"
    assert standing_of(repeat(windows, source="a log of 2017")) == "imported"
    assert standing_of(dataclasses.replace(one, emulated=True)) == "emulated"
    swinging = repeat([[1 + at / 10 for at in range(40)]], precision=0.001)
    assert standing_of(swinging) == "unstable"


def test_points_that_share_a_name_are_told_apart(tmp_path: Path) -> None:
    records = [repeat([[1, 1.0, 1.0]], batch_per_device=size) for size in (8, 16)]
    names = [point.name for point in export_points(run_of(tmp_path, records))]
    assert len(set(names)) == 2
    assert [name.rpartition(" ")[2] for name in names] == [one.trial.key for one in records]


def test_figures_are_those_of_the_row_and_only_what_there_is(tmp_path: Path) -> None:
    one, two, failed = export_points(run_of(tmp_path, good() + bad()))
    assert one.figures["images_per_second"] == 8.0
    assert two.figures["speedup_device"] == pytest.approx(16 / 1.3 / 8)
    assert two.figures["efficiency_device"] == pytest.approx(8 / 1.3 / 8)
    assert failed.figures == {"elapsed_seconds": 9.5}


def test_bytes_are_not_called_images(tmp_path: Path) -> None:
    moved = repeat([[1, 1.0, 1.0]] * 2, mode="bandwidth", devices=2, kvstore="dist_sync")
    (point,) = export_points(run_of(tmp_path, [moved]))
    assert "bytes_per_second" in point.figures
    assert "images_per_second" not in point.figures


def test_a_repeat_without_its_series_is_one_line(tmp_path: Path) -> None:
    (point,) = export_points(run_of(tmp_path, [repeat([[1, 1.0, 2.0]])]))
    (one,) = point.row.repeats
    with pytest.raises(StoreError, match=r"the record is damaged\. Rerun the sweep"):
        repeat_series({}, one)


def test_times_that_are_no_number_are_counted_from_the_start(tmp_path: Path) -> None:
    one = repeat([[1, 1.0, 2.0]])
    rank = dataclasses.replace(one.ranks[0], ends=(math.nan,) * 3, losses=(1.0, math.nan, 0.5))
    run_of(tmp_path, [dataclasses.replace(one, ranks=(rank,))])
    (found,) = series(tmp_path).values()
    assert found.ends == (1, 2, 4)
    assert found.losses == ((0, 1.0), (2, 0.5))


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_written_and_be_a_file_name(text: str) -> None:
    assert "\x00" not in legible(text).encode().decode()
    assert len(legible(text)) == len(text)
    assert not set(legible(text)) & set("\x1b\r\x7f\x85\x9b\u200e\u2028\u202e\u2066")
    name = file_name(text)
    assert name not in {"", ".", ".."}
    assert "/" not in name


def test_an_unknown_target_is_refused_with_those_there_are() -> None:
    for target in ("jnuit", "", "badge,junitt"):
        code, text = refusal(TASK, target)
        assert code == 2
        assert all(name in text for name in TARGETS)


@pytest.mark.parametrize(
    ("target", "package"),
    [
        ("mllog", "mlperf_logging"),
        ("tensorboard", "tensorboard"),
        ("mlflow", "mlflow"),
        ("junit", "junitparser"),
        ("prometheus", "prometheus_client"),
        ("badge", "anybadge"),
    ],
)
def test_a_missing_library_is_one_line_that_says_what_to_type(
    target: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"results.exports.{target}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    code, text = refusal(TASK, target)
    assert code == 2
    assert f"{target}: the Python package {package} is not installed" in text
    assert "'make exports'" in text


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", good())
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written") as caught:
        targets.export(run, {"junit": lambda *_: []}, tmp_path / "file" / "below")
    assert "\n" not in str(caught.value)


def test_words_that_no_point_has_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("anybadge", reason="needs the libraries of results.export: make exports")
    shutil.copytree(ROOT / "docs" / "runs" / "demo", tmp_path / "demo")
    code, text = refusal(TASK, "badge", run=str(tmp_path / "demo"), point="alexnet x3")
    assert code == 2
    assert "words of a point's name, got 'alexnet x3'" in text


def test_a_point_is_chosen_by_words(tmp_path: Path) -> None:
    pytest.importorskip("anybadge", reason="needs the libraries of results.export: make exports")
    shutil.copytree(ROOT / "docs" / "runs" / "demo", tmp_path / "demo")
    TASK.body(Context(), "badge", run=str(tmp_path / "demo"), point="inception-v3 x2 dist_sync")
    line = (tmp_path / "demo" / "report" / "exports" / "demo.badge.md").read_text()
    rows = {row.trial.name: row for row in load(tmp_path / "demo").rows}
    rate = rows["inception-v3 dist_sync x2"].rate
    assert f"inception-v3 x2: {rate.images_per_second:.3g} images/s" in line


def test_a_badge_shows_no_point_that_is_too_uncertain_if_there_is_another(tmp_path: Path) -> None:
    pytest.importorskip("anybadge", reason="needs the libraries of results.export: make exports")
    unsure = repeat([[1, 1.0, 30.0]], devices=4, devices_per_host=4)
    run_of(tmp_path / "run", [repeat([[1, 1.0, 1.0]], devices=2, devices_per_host=2), unsure])
    for point, devices in (("", 2), ("x4", 4)):
        TASK.body(Context(), "badge", run=str(tmp_path / "run"), point=point)
        line = (tmp_path / "run" / "report" / "exports" / "run.badge.md").read_text()
        assert f" x{devices}: " in line


def test_a_run_without_a_number_is_refused_where_numbers_are_all_there_is(tmp_path: Path) -> None:
    pytest.importorskip("anybadge", reason="needs the libraries of results.export: make exports")
    run_of(tmp_path / "run", bad())
    with pytest.raises(Exit, match="expected a training point with a result, got none") as caught:
        TASK.body(Context(), "badge", run=str(tmp_path / "run"))
    assert caught.value.code == 2


def test_a_baseline_of_ones_choice_is_in_what_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = repeat([[1, 1.0, 1.0]], devices=2, devices_per_host=2)
    four = repeat([[1, 1.25, 1.25]], devices=4, devices_per_host=4)
    run_of(tmp_path / "run", [two, four])
    found: list[dict[str, float]] = []

    def write(run: Any, folder: Path) -> list[Path]:
        found.extend(point.figures for point in export_points(run))
        return [folder]

    monkeypatch.setattr(targets, "load_exporter", lambda _: write)
    TASK.body(Context(), "junit", run=str(tmp_path / "run"), speedup_baseline="local x2")
    assert found[1]["speedup_baseline"] == pytest.approx(1.6)
    assert found[1]["efficiency_baseline"] == pytest.approx(0.8)
