"""One point over many runs, oldest first, with the changes between them."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bench.errors import SpecError
from plots.figures.scaling import save
from plots.tables.history import remarks
from plots.tables.history_chart import draw
from results.comparison.history import history
from results.run import Run
from tests.support.runs.comparisons import quiet, run
from tests.support.runs.records import record


def dated(name: str, day: int, factor: float = 1.0, **fields: Any) -> Run:
    """Return a run of one point, measured on that day of January."""
    records = [
        dataclasses.replace(one, started=f"2026-01-{day:02}T00:00:00+00:00")
        for one in quiet(factor, **fields)
    ]
    return run(name, *records, processor="P1", commit=f"c{day}")


def test_runs_come_by_their_dates_whatever_their_names() -> None:
    found = history([dated("a", 3), dated("b", 1), dated("c", 2)], "alexnet local x1")
    assert [(one.run.name, one.date[:10]) for one in found] == [
        ("b", "2026-01-01"),
        ("c", "2026-01-02"),
        ("a", "2026-01-03"),
    ]
    assert not any(one.changed for one in found)


def test_what_changed_is_told_where_it_changed() -> None:
    later = dataclasses.replace(dated("b", 2), environment={"processor": "P2"})
    found = history([dated("a", 1), later, dated("c", 3, steps_per_window=5)], "x1")
    assert found[0].changed == ()
    assert found[1].changed == ("processor (P1 / P2)",)
    assert found[2].changed == ("processor (P2 / P1)", "steps_per_window 1 → 5")
    assert remarks(found)[0] == "[2] changed since the previous run: processor (P1 / P2)."


def test_words_have_to_name_one_point() -> None:
    runs = [dated("a", 1), dated("b", 2, kvstore="dist_sync")]
    with pytest.raises(SpecError, match=r"in 2 runs, these match: alexnet local x1, alexnet dis"):
        history(runs, "alexnet")
    with pytest.raises(SpecError, match="in 2 runs, no point matches"):
        history(runs, "vgg")
    assert len(history(runs, "dist_sync")) == 1


def test_points_with_one_name_are_selected_by_their_settings() -> None:
    both = [*quiet(1.0, lr=0.1), *quiet(2.0, lr=0.2)]
    runs = [run(name, *both, processor="P1", commit="c") for name in "ab"]
    with pytest.raises(SpecError, match=r"these match: alexnet local x1 lr=0\.1, "):
        history(runs, "alexnet local x1")
    found = history(runs, "x1 lr=0.2")
    assert [one.row.trial.training.lr for one in found] == [0.2, 0.2]


def test_a_whole_name_is_meant_though_its_words_stand_in_another() -> None:
    runs = [dated("a", 1), dated("b", 2, dtype="bfloat16")]
    (one,) = history(runs, "alexnet local x1")
    assert one.run.name == "a"


def test_runs_without_the_point_or_its_number_are_no_gap_in_the_drawing() -> None:
    broken = run("bad", record([[1.0, 1.0]], status="hung"))
    found = history([dated("a", 2), broken, run("other", *quiet(devices=2))], "alexnet local x1")
    assert [one.run.name for one in found] == ["bad", "a"]
    assert "bad: broken." in remarks(found)
    axes: Any = draw(found).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["\nbad", "2026-01-02\na"]
    (cross,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert list(cross.get_xdata()) == [0]


def test_the_chart_marks_where_conditions_changed_and_is_stable(tmp_path: Path) -> None:
    other = dataclasses.replace(dated("b", 2), environment={"processor": "P2"})
    found = history([dated("a", 1), other, dated("c", 3)], "x1")
    axes: Any = draw(found).axes[0]
    dashed = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == "--"]
    assert dashed == [0.5, 1.5]
    bytes_of = [
        [path.read_bytes() for path in save(draw(found), tmp_path, name)] for name in ("x", "y")
    ]
    assert bytes_of[0] == bytes_of[1]


def test_a_long_history_labels_some_of_its_runs() -> None:
    found = history([dated(f"r{n}", 1 + n % 28) for n in range(100)], "x1")
    axes: Any = draw(found).axes[0]
    assert len(found) == 100
    assert len(axes.get_xticklabels()) <= 16
