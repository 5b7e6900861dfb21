"""Start of the steady state, precision of the mean, and the end of a measurement."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

from bench.statistics.budget import Budget, end_reason, is_checkpoint
from bench.statistics.confidence import Numbers, error_of_mean, student
from bench.statistics.steady_state import SteadyState, drift, find_steady_state
from bench.statistics.stopping_rule import is_precise_enough, relative_half_width

pytestmark = pytest.mark.pythons

# Images per second that others have logged: the first two windows are a warm-up.
LOGGED = (952, 2687, 22244, 21021, 21819, 21400, 21600, 21100, 21800, 21500)


def noise(
    draw: np.random.Generator, count: int, rho: float, cov: float, slow: float = 0.0
) -> Numbers:
    """Return `count` AR(1) seconds about 1, 1.5 times as long with probability `slow`."""
    fresh = draw.standard_normal(count)
    values = [fresh[0]]
    for one in fresh[1:]:
        values.append(rho * values[-1] + math.sqrt(1 - rho**2) * one)
    return 1 + cov * np.array(values) + 0.5 * (draw.random(count) < slow)


@pytest.mark.parametrize("count", [5, 6, 8, 10])
def test_a_logged_warm_up_is_dropped_down_to_the_steady_level(count: int) -> None:
    seconds = [1 / rate for rate in LOGGED[:count]]
    assert find_steady_state(seconds).dropped == 2
    assert find_steady_state(seconds, warmup=1).dropped == 2
    assert find_steady_state(seconds, warmup=3).dropped == 3


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("count", [9, 12, 18, 30, 60])
def test_a_slow_first_third_moves_the_rate_by_less_than_a_hundredth(count: int, rho: float) -> None:
    draw = np.random.default_rng(count)
    off = []
    for _ in range(100):
        truth = noise(draw, count, rho, 0.01)
        slowed = truth.copy()
        slowed[: count // 3] /= 0.7
        counted = slowed[find_steady_state(slowed).dropped :]
        off.append(abs(counted.mean() / truth[count // 3 :].mean() - 1))
    assert max(off) < 0.01


@pytest.mark.parametrize("slow", [0.0, 0.02])
@pytest.mark.parametrize("rho", [0.0, 0.6])
@pytest.mark.parametrize("cov", [0.01, 0.05])
def test_a_steady_series_keeps_its_windows(cov: float, rho: float, slow: float) -> None:
    draw = np.random.default_rng(7)
    off, dropped, runs = 0.0, 0, 600
    for _ in range(runs):
        seconds = noise(draw, 20, rho, cov, slow)
        cut = find_steady_state(seconds).dropped
        off += (seconds[cut:].mean() - seconds.mean()) / runs
        dropped += cut > 0
    assert abs(off) < 0.002
    assert dropped / runs < 0.1


def test_one_slow_window_is_no_slow_start_and_hides_none() -> None:
    draw = np.random.default_rng(3)
    seconds = noise(draw, 30, 0.0, 0.01)
    seconds[9] = 2.0
    assert find_steady_state(seconds).dropped == 0
    seconds[:2] = 9.0
    assert find_steady_state(seconds).dropped == 2


def test_a_series_that_is_steady_only_late_is_not_settled() -> None:
    draw = np.random.default_rng(4)
    seconds = noise(draw, 30, 0.0, 0.01)
    seconds[:20] *= 1.4
    assert find_steady_state(seconds) == SteadyState(dropped=20, converged=False)
    assert relative_half_width(seconds) == math.inf
    assert not find_steady_state([1.4, 1.5, 1.3, 1.45] * 3 + [1.0] * 6).converged


@pytest.mark.parametrize("slow", [5, 8, 12])
def test_a_level_is_confirmed_once_at_most_a_third_of_the_windows_is_dropped(slow: int) -> None:
    early = late = 0
    for seed in range(40):
        seconds = noise(np.random.default_rng(seed), 60, 0.0, 0.01)
        seconds[:slow] *= 1.15
        early += find_steady_state(seconds[: 3 * slow - 1]).converged
        late += find_steady_state(seconds[: 4 * slow]).converged
    assert early <= 2
    assert late >= 38


def test_measuring_goes_on_until_a_faster_level_is_confirmed_or_the_budget_is_spent() -> None:
    draw = np.random.default_rng(11)
    seconds = [2.0, *noise(draw, 8, 0.0, 0.1) * 1.4, *noise(draw, 52, 0.0, 0.005)]

    def ends(budget: Budget) -> tuple[int, str]:
        found = ((n, end_reason(seconds[: n + 1], budget, 1)) for n in range(len(seconds)))
        return next((n, said) for n, said in found if said)

    count, said = ends(Budget(precision=0.02, windows=60))
    assert said == "precision"
    assert count >= 24
    assert ends(Budget(precision=0.02, windows=20)) == (20, "windows")
    assert not find_steady_state(seconds[:21], warmup=1).converged


def test_a_series_that_goes_on_changing_drifts() -> None:
    draw = np.random.default_rng(5)
    seconds = noise(draw, 40, 0.0, 0.01) * np.linspace(1, 1.2, 40)
    cut = find_steady_state(seconds).dropped
    assert 0.03 < drift(seconds[cut:]) < 0.2
    assert drift(seconds[::-1]) == pytest.approx(-0.18, abs=0.02)
    assert drift(noise(draw, 40, 0.0, 0.01)) == 0


def test_a_bent_drift_is_seen() -> None:
    places = np.arange(20) / 19
    for shape in (np.exp(0.6 * places), 1 - 0.5 * np.exp(-3 * places)):
        seen = [
            drift(shape * noise(np.random.default_rng(n), 20, 0.0, 0.02)) != 0 for n in range(100)
        ]
        assert sum(seen) > 80


def test_drift_is_rarely_seen_where_there_is_none() -> None:
    draw = np.random.default_rng(6)
    seen = sum(drift(noise(draw, 20, 0.3, 0.02)) != 0 for _ in range(1000))
    assert seen <= 15


def test_short_and_equal_series_are_taken_as_they_are() -> None:
    for count in range(12):
        assert find_steady_state([2.0] * count, warmup=1) == SteadyState(dropped=min(1, count))
    assert find_steady_state([9.0, 1.0, 1.0]).dropped == 0
    assert find_steady_state([9.0, 1.0, 1.0, 1.0]).dropped == 1


def test_long_series_are_taken_in_batches() -> None:
    seconds = noise(np.random.default_rng(8), 50_000, 0.3, 0.02)
    seconds[:5000] *= 2
    assert 5000 <= find_steady_state(seconds).dropped <= 5500


@settings(deadline=None)
@given(st.lists(st.floats(1e-6, 1e6), max_size=40), st.integers(0, 5))
def test_any_series_leaves_windows_to_count(seconds: list[float], warmup: int) -> None:
    found = find_steady_state(seconds, warmup)
    assert min(warmup, len(seconds)) <= found.dropped
    assert found.dropped < len(seconds) or len(seconds) <= warmup
    assert math.isfinite(drift(seconds))
    assert is_precise_enough(seconds, 0.02, warmup) in (True, False)


def test_students_quantiles_are_those_of_scipy() -> None:
    for confidence, least in ((0.95, 1), (0.999, 2), (1 - 1e-5, 5)):
        for freedom in (least, least + 0.3, 2.5 * least, 17.2, 120, 1e4):
            exact = float(stdtrit(freedom, (1 + confidence) / 2))
            assert student(freedom, confidence) == pytest.approx(exact, rel=1e-3)


def test_windows_that_are_alike_count_for_less() -> None:
    draw = np.random.default_rng(9)
    sizes = {}
    for rho in (0.0, 0.6):
        errors = [error_of_mean(noise(draw, 80, rho, 0.01)) for _ in range(100)]
        sizes[rho] = float(np.median([error.size for error in errors if error]))
    # An AR(1) of 0.6 has a mean with 2 times the error of independent values.
    assert sizes[0.6] / sizes[0.0] == pytest.approx(2, abs=0.35)
    assert error_of_mean([1.0]) is None


def test_it_stops_when_it_is_sure_and_not_before() -> None:
    quiet = [3.0, 1.0, 1.01, 0.99, 1.005, 1.0, 0.995, 1.0, 1.01, 0.99]
    assert is_precise_enough(quiet, 0.02, warmup=1)
    assert not is_precise_enough(quiet, 0.001, warmup=1)
    assert not is_precise_enough(quiet[:9], 0.02, warmup=1)
    assert not is_precise_enough([3.0, 1.0, 1.3, 0.8, 1.1, 0.7, 1.2, 0.9, 1.1, 1.0], 0.02, warmup=1)


def test_windows_that_scatter_once_the_pilot_is_over_keep_it_from_stopping() -> None:
    pilot, wild = [1.0, 1.01, 0.99], [1.0, 1.5, 0.7, 1.4, 0.8, 1.2]
    assert not is_precise_enough([*pilot, *wild])


def test_one_slow_window_of_the_pilot_is_not_taken_for_the_scatter_of_all() -> None:
    quiet = [1.0, 1.01, 0.99, 1.0, 1.005, 0.995]
    assert is_precise_enough([*quiet, 1.0, 1.3, 0.99, *quiet * 4])
    assert not is_precise_enough([*quiet, 1.3, 1.3, 0.99, *quiet * 4])


def test_looks_are_spaced_by_a_window_of_the_pilot_or_a_tenth() -> None:
    looks = [count for count in range(100) if is_checkpoint(count)]
    assert looks[:10] == [9, 12, 15, 18, 21, 24, 27, 30, 33, 37]
    assert all(b / a >= 1.1 and b - a >= 3 for a, b in itertools.pairwise(looks))


def test_what_ended_a_measurement_is_said() -> None:
    quiet, wild = [3.0, *[1.0, 1.01] * 10], [3.0, *[1.0, 2.0, 0.5, 1.7] * 5]
    budget = Budget(precision=0.02, windows=18, seconds=15.0)

    def ends(seconds: list[float], budget: Budget) -> tuple[int, str]:
        found = ((n, end_reason(seconds[: n + 1], budget, 1)) for n in range(len(seconds)))
        return next((n, said) for n, said in found if said)

    assert ends(quiet, budget) == (9, "precision")
    assert ends(quiet, budget._replace(precision=0.0)) == (15, "seconds")
    assert ends(wild, budget) == (12, "seconds")
    assert ends(wild, budget._replace(seconds=0.0)) == (18, "windows")


@pytest.mark.parametrize("precision", [0.5, 0.02, 1e-6])
def test_equal_windows_are_precise_at_the_first_checkpoint(precision: float) -> None:
    """`end_reason` leaves out the computation for them; it would agree."""
    for first, warmup in ((1.0, 0), (7.0, 1)):
        for count in range(9, 70):
            seconds = [first] * warmup + [0.3] * count
            assert is_precise_enough(seconds, precision, warmup)
    budget = Budget(precision=precision, windows=60)
    ends = [end_reason([7.0] + [0.3] * count, budget, 1) for count in range(1, 10)]
    assert ends == [""] * 8 + ["precision"]
