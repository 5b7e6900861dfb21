"""Intervals allow for a slowdown in the unmeasured part of a window budget."""

import math

import pytest
from scipy.special import stdtr, stdtrit

from bench.statistics.confidence import student
from plots.tables.scaling import column_notes
from results.rates import ASSUMED_DRIFT, interval_reach, rate
from results.record import Record, joined
from results.scaling import scaling
from tests.support.runs.records import record

LEVELS = (1.0, 1.01, 0.99)


def repeats(count: int, **fields: object) -> list[Record]:
    """Return three repeats with this number of windows, after one of warm-up."""
    return [record([[9.0, *[level] * count]], repeat=n, **fields) for n, level in enumerate(LEVELS)]


@pytest.mark.parametrize("fields", [{"windows": 20}, {"precision": 0.0}])
def test_a_budget_that_was_measured_whole_has_the_interval_of_its_repeats(
    fields: dict[str, object],
) -> None:
    found = rate(repeats(20, **fields))
    assert found.error
    half = 1 + found.error.half_width
    assert found.slowdown == 0
    assert found.high / found.images_per_second == pytest.approx(half, rel=1e-3)
    assert found.images_per_second / found.low == pytest.approx(half, rel=1e-3)


def test_the_lower_end_allows_for_what_an_early_end_leaves_unmeasured() -> None:
    whole, early = rate(repeats(20, windows=20)), rate(repeats(20, windows=60))
    assert early.slowdown == pytest.approx(ASSUMED_DRIFT * (29.5 - 9.5) / 59)
    assert early.low < whole.low * (1 - early.slowdown / 2)
    assert whole.images_per_second < early.high < whole.high
    assert early.error == whole.error  # what two points share is in no ratio of them
    assert rate(repeats(10, windows=60)).slowdown > early.slowdown


def test_windows_dropped_at_the_front_are_no_part_of_what_is_left() -> None:
    slow = [record([[9.0, *[2.0] * 6, *[level] * 20]], repeat=n) for n, level in enumerate(LEVELS)]
    assert rate(slow).slowdown == pytest.approx(ASSUMED_DRIFT * (29.5 - 15.5) / 59)


@pytest.mark.parametrize("freedom", [1, 2, 4, 9.5])
@pytest.mark.parametrize("bound", [0.0, 0.1, 1.0, 5.0, 100.0])
def test_the_interval_holds_the_truth_at_both_ends_of_the_bias(
    freedom: float, bound: float
) -> None:
    far = interval_reach(freedom, bound)
    assert stdtr(freedom, far + bound) - stdtr(freedom, -far) == pytest.approx(0.95, abs=1e-3)
    assert float(stdtrit(freedom, 0.95)) * 0.999 <= far <= student(freedom)


def test_the_table_says_that_a_slowdown_is_assumed_if_measuring_ended_early() -> None:
    said = [" ".join(column_notes(scaling(repeats(20, windows=n)))) for n in (60, 20)]
    assert ["remaining windows to be up to 3 % slower" in one for one in said] == [True, False]


def test_numbers_of_series_are_joined_in_their_order() -> None:
    assert joined([(1.5, 2), (), (math.inf,)]).tolist() == [1.5, 2.0, math.inf]
    assert joined([]).tolist() == []
