"""Simulate false alarms and power of comparisons.

Draws pairs of runs of 27 points whose processes and windows vary by a model of noise, and judges
them as 'fab report.compare' does. A false alarm is a comparison in which any unchanged point has a
verdict. Power is the share of changed points that are found. Results:
docs/explanation/validation-comparisons.md.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.statistics.confidence import Numbers
from results.comparison.compare import Pair, significances
from results.rates import Rate, RateSamples, pool_repeats

POINTS, WINDOWS = 27, 10
REPEATS = (1, 2, 3, 5)
SCATTER = 0.015

# Draws relative deviations in the given shape.
Deviations = Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Relative deviations of processes and of windows.

    drift   relative slowdown of a run from its start to its end
    scales  factors of both deviations, one per point or one for all points
    """

    between: Deviations
    within: Deviations
    drift: float = 0.0
    scales: Numbers | float = 1.0


def normal(draw: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Draw normal deviations with a standard deviation of 1.5 %."""
    return SCATTER * draw.standard_normal(shape)


def lognormal(spread: float, deviation: float = SCATTER) -> Deviations:
    """Return deviations skewed to the slow side, as exp(spread z)."""
    mean = math.exp(spread**2 / 2)
    unit = mean * math.sqrt(math.expm1(spread**2))
    return lambda draw, shape: deviation * (draw.lognormal(0, spread, shape) - mean) / unit


def pareto(alpha: float, deviation: float = SCATTER) -> Deviations:
    """Return deviations with rare, unbounded slow values."""
    mean = 1 / (alpha - 1)
    unit = math.sqrt(alpha / (alpha - 2)) / (alpha - 1)
    return lambda draw, shape: deviation * (draw.pareto(alpha, shape) - mean) / unit


def slower(by: float, share: float) -> Deviations:
    """Return deviations that are `by` in this share of the values, otherwise 0."""
    return lambda draw, shape: by * (draw.random(shape) < share)


NOISES = {
    "normal 1.5 %": Noise(between=normal, within=normal),
    "lognormal, s = 1": Noise(between=lognormal(1), within=lognormal(1)),
    "lognormal, s = 1.5": Noise(between=lognormal(1.5), within=lognormal(1.5)),
    "Pareto, alpha = 2.5": Noise(between=pareto(2.5), within=pareto(2.5)),
    "two modes 8 % apart": Noise(between=slower(0.08, 0.5), within=normal),
    "two modes, 1 in 10 processes slow": Noise(between=slower(0.08, 0.1), within=normal),
    "a neighbor takes 20 % in 30 % of the processes": Noise(
        between=slower(0.25, 0.3), within=normal
    ),
    "a neighbor takes 20 % in 30 % of the windows": Noise(between=normal, within=slower(0.25, 0.3)),
    "drift of 3 % over each run": Noise(between=normal, within=normal, drift=0.03),
}


def run(draw: np.random.Generator, noise: Noise, repeats: int, factors: Numbers) -> list[Rate]:
    """Return throughputs of a run whose points take `factors` times as long."""
    points = len(factors)
    # All points of a repeat come before those of the next, in random order.
    order = draw.permuted(np.tile(np.arange(points), (repeats, 1)), axis=1)
    place = (np.argsort(order, axis=1) + points * np.arange(repeats)[:, None]) / points / repeats
    between = noise.between(draw, (points, repeats)) * np.reshape(noise.scales, (-1, 1))
    within = noise.within(draw, (points, repeats, WINDOWS)) * np.reshape(noise.scales, (-1, 1, 1))
    levels = 1 + between + noise.drift * place.T
    seconds = factors[:, None, None] * np.maximum(levels[..., None] + within, 0.01)
    return [_rate(point) for point in seconds.tolist()]


def _rate(repeats: Sequence[Sequence[float]]) -> Rate:
    """Return a point's throughput; several repeats count by their total times."""
    if len(repeats) == 1:
        return pool_repeats(
            [RateSamples(each=tuple((one, 1.0) for one in repeats[0]), windows=WINDOWS)]
        )
    return pool_repeats(
        [RateSamples(each=((sum(one), WINDOWS),), windows=WINDOWS) for one in repeats]
    )


def comparisons(
    draw: np.random.Generator, noise: Noise, repeats: tuple[int, int], factors: Numbers, count: int
) -> list[list[bool]]:
    """Return for each of `count` comparisons which points have a verdict.

    B's points take `factors` times as long as A's.
    """
    found = []
    for _ in range(count):
        a = run(draw, noise, repeats[0], np.ones(len(factors)))
        b = run(draw, noise, repeats[1], factors)
        pairs: list[Pair] = list(zip(a, b, strict=True))
        found.append([one is not None and one.significant for one in significances(pairs)])
    return found


def found_of(found: Sequence[Sequence[bool]], factors: Numbers) -> float:
    """Return the share of the changed points that have a verdict."""
    return float(np.mean(np.array(found)[:, factors > 1]))


def main() -> None:
    """Parse the command line, simulate and print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.statistics.comparisons", description=__doc__
    )
    parser.add_argument(
        "--count", metavar="N", type=int, default=2000, help="Comparisons per row [%(default)s]"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=1, help="Seed of the simulation [%(default)s]"
    )
    names = ", ".join(f"'{name}'" for name in NOISES).replace("%", "%%")
    parser.add_argument(
        "--noise",
        metavar="NAME",
        choices=[*NOISES],
        action="append",
        help=f"Noise to simulate; repeatable: {names} [all]",
    )
    parser.add_argument(
        "--repeats",
        metavar="N",
        type=int,
        action="append",
        help="Repeats of each point; repeatable [1, 2, 3 and 5]",
    )
    given = parser.parse_args()
    same, all_ = np.ones(POINTS), np.full(POINTS, 1 / 0.9)
    some = np.where(np.arange(POINTS) % 9, same, all_)
    print("noise | n | false alarms | power, 3 of 27 points 10 % slower | power, all 27 slower")
    for name in given.noise or NOISES:
        for repeats in given.repeats or REPEATS:
            draw, noise, both = np.random.default_rng(given.seed), NOISES[name], (repeats, repeats)
            false = comparisons(draw, noise, both, same, given.count)
            shares = [
                float(np.mean([any(one) for one in false])),
                *(
                    found_of(comparisons(draw, noise, both, factors, given.count), factors)
                    for factors in (some, all_)
                ),
            ]
            cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
            print(f"{name} | {repeats} | {cells}", flush=True)


if __name__ == "__main__":
    main()
