"""The time left of a sweep and of a job, from its progress."""

import pytest

from im2rec_tools.progress import job_seconds_left, time_left
from results.progress import sweep_seconds_left


def test_the_remaining_repeats_take_as_long_as_those_of_their_point() -> None:
    finished = [("a", 10.0), ("a", 20.0), ("b", 60.0)]
    assert sweep_seconds_left(["a", "b"], finished) == 15.0 + 60.0
    assert sweep_seconds_left(["new"], finished) == 30.0
    assert sweep_seconds_left([], finished) == 0.0
    assert sweep_seconds_left(["a"], []) is None


def test_earlier_runs_count_until_a_repeat_of_the_point_has_finished() -> None:
    expected = {"a": 5.0, "b": 7.0}
    assert sweep_seconds_left(["a", "b", "new"], [], expected) == 5.0 + 7.0 + 6.0
    assert sweep_seconds_left(["a", "b", "new"], [("a", 9.0)], expected) == 9.0 + 7.0 + 9.0


def test_a_job_is_estimated_by_its_windows_or_epochs_so_far() -> None:
    assert job_seconds_left(4, 10, 8.0) == 12.0
    assert job_seconds_left(1, 3, 60.0, since=20.0) == 100.0
    assert job_seconds_left(1, 3, 60.0, since=500.0) == 0.0
    assert job_seconds_left(0, 10, 8.0) is None
    assert job_seconds_left(3, 0, 8.0) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (7.4, "7 s"),
        (43.0, "45 s"),
        (59.9, "60 s"),
        (185.0, "3 min"),
        (3599.0, "1 h"),
        (4800.0, "1 h 20 min"),
        (86400.0, "1 d"),
        (97200.0, "1 d 3 h"),
    ],
)
def test_a_duration_is_rounded_as_people_say_it(seconds: float, text: str) -> None:
    assert time_left(seconds) == text
