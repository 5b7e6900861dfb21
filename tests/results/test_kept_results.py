"""Results of functions of rows are kept while the rows stay the same objects."""

from collections.abc import Sequence
from typing import Any

import pytest

from plots.figures.model import drawable, line_fields, lines, scalable
from plots.point_labels import settings_of
from plots.summary import summary_items
from plots.tables.scaling import varying_columns
from results.explain.measurements import StepMeasurements, point_measurements
from results.record import kept_by_items
from results.repeat import RepeatSummary
from results.scaling import scaling
from tests.support.runs.scenes import published, run, three


def test_a_result_is_computed_once_for_the_same_items() -> None:
    asked: list[list[str]] = []

    @kept_by_items
    def joined(words: Sequence[str]) -> str:
        asked.append([*words])
        return " ".join(words)

    words = ["".join(("a", "b")), "".join(("c", "d"))]
    assert joined(words) == joined([*words]) == "ab cd"
    assert joined(words[:1]) == "ab"
    assert joined([]) == ""
    assert asked == [words, words[:1], []]
    # An equal word that is another object is another item.
    assert joined(["".join(("a", "b"))]) == "ab"
    assert len(asked) == 4


def test_only_the_latest_results_are_kept() -> None:
    asked: list[int] = []

    @kept_by_items
    def first(numbers: Sequence[int]) -> int:
        asked.append(numbers[0])
        return numbers[0]

    for number in range(20):
        assert first([number]) == number
        assert first([0]) == 0  # asked for again and again, so never forgotten
    assert asked == [*range(20)]
    assert first([1]) == 1
    assert asked[-1] == 1
    assert len(asked) == 21


@pytest.mark.parametrize("function", [scalable, drawable, line_fields, lines, varying_columns])
def test_a_report_derives_lines_and_columns_of_its_rows_once(function: object) -> None:
    rows = run(published()).rows
    assert callable(function)
    assert function(rows) is function([*rows])


def test_the_baseline_of_several_points_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(repeats: Sequence[RepeatSummary], *more: Any) -> StepMeasurements:
        asked.append(repeats[0].trial.layout.devices)
        return point_measurements(repeats, *more)

    monkeypatch.setattr("results.scaling.point_measurements", counted)
    scaling(three())
    assert sorted(asked) == [1, 1, 2, 4]


def test_a_report_summarizes_its_run_once() -> None:
    study, other = run(published()), run(published())
    assert summary_items(study) is summary_items(study)
    assert summary_items(study) is not summary_items(other)


def test_a_report_splits_the_settings_of_its_points_once() -> None:
    rows = run(published()).rows
    assert settings_of([row.trial for row in rows]) is settings_of([row.trial for row in rows])
