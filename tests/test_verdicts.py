"""Verdicts on many points at once are seldom false, and say what they could have seen."""

import math
from statistics import median

import numpy as np
import pytest

from bench.interval import Error
from results.rates import Parts, Rate, together
from results.verdicts import beyond, chance, of_ratio, visible


def test_many_points_are_judged_together() -> None:
    chances = [0.04] + [0.5] * 26
    assert not any(beyond(chances))
    assert beyond([0.04]) == [True]
    assert beyond([0.03, 0.0001, 0.02]) == [True, True, True]
    assert beyond([0.03, 0.0001, 0.03]) == [False, True, False]
    assert beyond([]) == []


def simulated(random: np.random.Generator, slower: float = 1.0) -> Rate:
    """Of three processes that scatter by 0.6 %, each of ten windows that scatter by 1 %."""
    levels = slower * np.exp(random.normal(0, 0.006, 3))
    windows = np.exp(random.normal(0, 0.01, (3, 10))) * levels[:, None]
    return together(
        [Parts(each=tuple((float(one), 1.0) for one in row), windows=10) for row in windows]
    )


def p_value(point: Rate, base: Rate) -> float:
    error = of_ratio(point, base)
    assert error
    return chance(math.log(point.images_per_second / base.images_per_second), error)


def test_of_many_unchanged_points_any_seldom_has_a_verdict() -> None:
    random = np.random.default_rng(1)
    false = [
        any(beyond([p_value(simulated(random), simulated(random)) for _ in range(27)]))
        for _ in range(100)
    ]
    assert sum(false) <= 10


def test_a_visible_change_is_mostly_found() -> None:
    random = np.random.default_rng(2)
    errors = [of_ratio(simulated(random), simulated(random)) for _ in range(200)]
    seen = median(visible(error, 1) for error in errors if error)
    changed = [p_value(simulated(random, 1 + seen), simulated(random)) for _ in range(400)]
    # 9 of 10 where the noise is known; three repeats know it badly.
    assert 0.8 < sum(one < 0.05 for one in changed) / len(changed) < 0.95


def test_a_visible_change_is_two_quantiles_of_a_known_error() -> None:
    error = Error(size=0.01, freedom=1e6)
    # Two normal quantiles: 1.960 for the limit, 1.282 for nine of ten.
    assert visible(error, 1) == pytest.approx(0.0329, abs=1e-4)
    assert visible(error, 27) > visible(error, 1)
    assert chance(0.0196, error) == pytest.approx(0.05, abs=1e-4)
