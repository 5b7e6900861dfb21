"""Verdicts on many points are rarely false and have a detectable effect."""

import math
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from bench.statistics.confidence import Numbers, StandardError
from benchmarks.statistics.comparisons import NOISES, POINTS, Noise, comparisons, found_of, run
from results.comparison.compare import (
    compare,
    detectable_difference,
    holm,
    p_value,
    pooled_error,
    ratio_error,
    significances,
)
from results.rates import ASSUMED_SCATTER, Rate
from results.run import Run
from results.scaling import ScalingRow
from tests.support.repeats import slow
from tests.support.runs.records import record

REPEATS = (2, 3, 5)
NORMAL = NOISES["normal 1.5 %"]
SAME = np.ones(POINTS)
# 10 % slower in 3 of 27 points, and in every point.
SOME, ALL = np.where(np.arange(POINTS) % 9, 1.0, 1 / 0.9), np.full(POINTS, 1 / 0.9)
# In `make test`, and in `make test-slow`, which is to have no more than 6 %.
FEW, MANY = 75, 2000

of_each_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())


def alarms(noise: Noise, repeats: tuple[int, int], count: int) -> float:
    """Return the share of comparisons with a verdict on any unchanged point of 27."""
    found = comparisons(np.random.default_rng(1), noise, repeats, SAME, count)
    return float(np.mean([any(one) for one in found]))


def power(repeats: int, factors: Numbers, count: int) -> float:
    """Return the share of changed points found with 1.5 % of noise."""
    draw = np.random.default_rng(2)
    return found_of(comparisons(draw, NORMAL, (repeats, repeats), factors, count), factors)


def test_many_points_are_judged_together() -> None:
    chances = [0.04] + [0.5] * 26
    assert not any(holm(chances))
    assert holm([0.04]) == [True]
    assert holm([0.03, 0.0001, 0.02]) == [True, True, True]
    assert holm([0.03, 0.0001, 0.03]) == [False, True, False]
    assert holm([]) == []


@of_each_noise
@pytest.mark.parametrize("repeats", [3, *slow(2, 5)])
def test_unchanged_points_seldom_have_a_verdict_whatever_the_noise(
    noise: Noise, repeats: int
) -> None:
    # 6 % of 75 with three standard errors.
    assert alarms(noise, (repeats, repeats), FEW) <= 0.142


@pytest.mark.slow
@of_each_noise
@pytest.mark.parametrize("repeats", REPEATS)
def test_at_most_6_percent_of_2000_comparisons_report_a_change_of_27_unchanged_points(
    noise: Noise, repeats: int
) -> None:
    assert alarms(noise, (repeats, repeats), MANY) <= 0.06


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_single_repeats_that_scatter_as_assumed_seldom_differ(count: int) -> None:
    assert alarms(NORMAL, (1, 1), count) <= 0.1
    assert alarms(NORMAL, (1, 3), count) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("noisy", [1, 3, 9])
def test_points_that_scatter_more_than_the_others_are_judged_by_their_own_scatter(
    noisy: int, repeats: int
) -> None:
    scales = np.where(np.arange(POINTS) < noisy, 4.0, 1.0) / 2
    noise = replace(NORMAL, scales=scales)
    assert alarms(noise, (repeats, repeats), MANY) <= 0.08


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("repeats", "least"), [(2, 0.5), (3, 0.8), (5, 0.9)])
def test_a_change_of_10_percent_in_3_of_27_points_is_found(
    repeats: int, least: float, count: int
) -> None:
    assert power(repeats, SOME, count) >= least


@pytest.mark.parametrize("repeats", [1, *REPEATS])
def test_a_uniform_slowdown_of_all_points_is_found(repeats: int) -> None:
    assert power(repeats, ALL, FEW) >= 0.8


def test_a_comparison_of_runs_judges_as_the_simulation_does() -> None:
    draw = np.random.default_rng(5)
    factors = np.where(np.arange(9), 1.0, 1.2)
    a, b = (run(draw, NORMAL, 3, each) for each in (np.ones(9), factors))
    found = compare(_run("a", a), _run("b", b)).changes
    assert [one.verdict for one in found] == ["regressed", *["undecided"] * 8]
    pairs = list(zip(a, b, strict=True))
    assert [one.detectable for one in found] == [
        one.detectable for one in significances(pairs) if one
    ]


def _run(name: str, rates: list[Rate]) -> Run:
    rows = [
        ScalingRow(
            trial=record([[1.0]], devices=devices).trial,
            name="",
            status="ok",
            message="",
            rate=rate,
            emulated=False,
        )
        for devices, rate in enumerate(rates, 1)
    ]
    return Run(folder=Path(name), rows=rows, environment={})


def rate(size: float, repeats: int, images_per_second: float = 1.0) -> Rate:
    """Return a throughput whose processes varied by `size`."""
    error = StandardError(
        size=size / math.sqrt(repeats), degrees_of_freedom=max(repeats - 1, 9 * (repeats == 1))
    )
    return Rate(images_per_second=images_per_second, error=error, repeats=repeats, windows=9)


def test_repeats_that_are_alike_by_chance_are_judged_by_the_scatter_of_all() -> None:
    quiet, usual = rate(0.0001, 2), rate(0.02, 2)
    alone = significances([(quiet, rate(0.0001, 2, 0.97))])
    among = significances([(quiet, rate(0.0001, 2, 0.97)), *[(usual, usual)] * 9])
    assert (alone[0].significant, among[0].significant) == (True, False)


def test_a_point_that_scatters_more_has_its_own_degrees_of_freedom() -> None:
    scatter = pooled_error([(rate(0.01, 3), rate(0.01, 3))] * 20)
    assert (scatter.size, scatter.degrees_of_freedom) == (pytest.approx(0.01), 80)
    alike = ratio_error(rate(0.01, 3), rate(0.01, 3), scatter)
    noisy = ratio_error(rate(0.1, 3), rate(0.1, 3), scatter)
    assert (alike.size, alike.degrees_of_freedom) == (pytest.approx(0.01 * math.sqrt(2 / 3)), 80)
    assert noisy.size == pytest.approx(0.1 * math.sqrt(2 / 3))
    assert noisy.degrees_of_freedom < 6


def test_points_without_repeats_have_no_scatter_in_common() -> None:
    assert pooled_error([(rate(0.01, 1), rate(0.01, 1))]) is None
    single = ratio_error(rate(ASSUMED_SCATTER, 1), rate(ASSUMED_SCATTER, 1), None)
    assert single.size == pytest.approx(ASSUMED_SCATTER * math.sqrt(2))


def test_a_single_figure_is_not_judged_and_leaves_the_others_as_they_are() -> None:
    known = (rate(0.01, 3), rate(0.01, 3, 0.9))
    figure = Rate(images_per_second=1.0, error=None, repeats=1, windows=1)
    assert significances([(figure, figure), known]) == [None, *significances([known])]


@pytest.mark.parametrize(("repeats", "least"), [(1, 0.8), (2, 0.7), (3, 0.7), (5, 0.75)])
def test_a_visible_change_is_mostly_found(repeats: int, least: float) -> None:
    draw = np.random.default_rng(2)
    same = [(run(draw, NORMAL, repeats, SAME), run(draw, NORMAL, repeats, SAME)) for _ in range(9)]
    seen = median(
        one.detectable
        for a, b in same
        for one in significances(list(zip(a, b, strict=True)))
        if one
    )
    slow = np.ones(POINTS)
    slow[0] = 1 + seen
    found = comparisons(draw, NORMAL, (repeats, repeats), slow, 150)
    # 9 of 10 where the noise is known; few repeats know it badly.
    assert least < found_of(found, slow) < 0.99


def test_a_visible_change_is_two_quantiles_of_a_known_error() -> None:
    error = StandardError(size=0.01, degrees_of_freedom=1e6)
    # Two normal quantiles: 1.960 for the limit, 1.282 for nine of ten.
    assert detectable_difference(error, 1) == pytest.approx(0.0329, abs=1e-4)
    assert detectable_difference(error, 27) > detectable_difference(error, 1)
    assert p_value(0.0196, error) == pytest.approx(0.05, abs=1e-4)
