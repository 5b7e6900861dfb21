"""Simulate the coverage of 95 % CIs under the stopping rule.

Draws window times of many processes, ends each by the stopping rule (budget of 60 windows) and
groups them into points of 3 and 5 repeats. The true value is the throughput of an indefinitely
repeated process that measures its whole budget: all images over all seconds. With a drift it is the
mean over all windows of the budget; with a fading start it is the final level. Results:
docs/explanation/validation.md.
"""

import argparse
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bench.statistics.budget import Budget, end_reason, is_checkpoint
from bench.statistics.confidence import Numbers
from bench.trial import make
from benchmarks.scale.runs import simulated_record
from benchmarks.statistics.comparisons import Deviations, lognormal, pareto
from results.rates import Rate, rate
from results.record import Rank, Record
from results.speedup import ratio

WINDOWS = 60
_PRECISION = 0.02
_BATCH = 8
_LOOKS = [count for count in range(WINDOWS) if is_checkpoint(count)] + [WINDOWS]
# Relative standard deviation between processes.
_BETWEEN = 0.006
_REPEATS = (3, 5)

Draw = Callable[[np.random.Generator, int], Numbers]


def normal(scatter: float, rho: float = 0.0, drift: float = 0.0) -> Draw:
    """Return AR(1) windows of this standard deviation with a linear slowdown."""

    def draw(random: np.random.Generator, count: int) -> Numbers:
        values = random.standard_normal((count, WINDOWS))
        for window in range(1, WINDOWS):
            values[:, window] *= math.sqrt(1 - rho**2)
            values[:, window] += rho * values[:, window - 1]
        return (1 + scatter * values) * (1 + drift * np.linspace(-0.5, 0.5, WINDOWS))

    return draw


def skewed(deviations: Deviations) -> Draw:
    """Return windows of mean 1 with these deviations."""
    return lambda random, count: 1 + deviations(random, (count, WINDOWS))


def rare(scatter: float, share: float) -> Draw:
    """Return normal windows, a share of which take 1.5 times as long; mean 1."""

    def draw(random: np.random.Generator, count: int) -> Numbers:
        values = normal(scatter)(random, count)
        return (values + 0.5 * (random.random(values.shape) < share)) / (1 + 0.5 * share)

    return draw


def fading(scatter: float, start: float, windows: float) -> Draw:
    """Return normal windows with a slower start that fades.

    start    relative slowdown of the first window
    windows  time constant
    """
    fade = 1 + start * np.exp(-np.arange(WINDOWS) / windows)
    return lambda random, count: normal(scatter)(random, count) * fade


KINDS: Mapping[str, Draw] = {
    "normal 1 %": normal(0.01),
    "normal 3 %": normal(0.03),
    "AR(1) 0.3, 3 %": normal(0.03, rho=0.3),
    "AR(1) 0.6, 3 %": normal(0.03, rho=0.6),
    "drift 3 %, normal 1 %": normal(0.01, drift=0.03),
    "drift 3 %, normal 2 %": normal(0.02, drift=0.03),
    "drift 3 %, AR(1) 0.3, 3 %": normal(0.03, rho=0.3, drift=0.03),
    "drift -3 %, normal 1 %": normal(0.01, drift=-0.03),
    "lognormal s = 1, 1.5 %": skewed(lognormal(1.0, 0.015)),
    "lognormal s = 1, 3 %": skewed(lognormal(1.0, 0.03)),
    "lognormal s = 1, 5 %": skewed(lognormal(1.0, 0.05)),
    "lognormal s = 1, 10 %": skewed(lognormal(1.0, 0.1)),
    "lognormal s = 1.5, 5 %": skewed(lognormal(1.5, 0.05)),
    "Pareto 2.5, 5 %": skewed(pareto(2.5, 0.05)),
    "normal 1 %, 2 % of the windows 1.5 times as long": rare(0.01, 0.02),
    "normal 1 %, a start 30 % slower fades over 5 windows": fading(0.01, 0.3, 5),
    "normal 1 %, a start 20 % slower fades over 10 windows": fading(0.01, 0.2, 10),
    "normal 3 %, a start 20 % slower fades over 10 windows": fading(0.03, 0.2, 10),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Found:
    """Results for one kind of windows; mappings are by number of repeats.

    windows   mean number of windows per process
    bias      relative bias of the throughput of a process
    held      share of intervals that contain the true value
    width     median CI half-width, relative to the throughput
    ratio     share of intervals of one point over the next that contain 1
    """

    windows: float
    bias: float
    held: Mapping[int, float]
    width: Mapping[int, float]
    ratio: Mapping[int, float]


def measured(seconds: Numbers, precision: float = _PRECISION) -> Record:
    """Return the record of a process that the stopping rule ends.

    A slow first window precedes `seconds`.
    """
    series = [1.5, *seconds.tolist()]
    budget = Budget(precision=precision, windows=WINDOWS)
    count = next(n for n in _LOOKS if end_reason(series[: n + 1], budget, 1))
    return _record(series[: count + 1], precision)


def simulate(
    draw: Draw,
    processes: int,
    *,
    between: float = _BETWEEN,
    precision: float = _PRECISION,
    seed: int = 1,
) -> Found:
    """Simulate processes whose levels have the standard deviation `between`."""
    random = np.random.default_rng(seed)
    levels = 1 + between * random.standard_normal((processes, 1))
    records = [measured(one, precision) for one in levels * draw(random, processes)]
    points = {n: [rate(some) for some in _grouped(records, n)] for n in _REPEATS}
    alone = [rate([one]) for one in records]
    return Found(
        windows=float(np.mean([len(one.ranks[0].seconds) - 1 for one in records])),
        bias=1 / float(np.mean([_BATCH / one.images_per_second for one in alone])) - 1,
        held={n: _held(rates) for n, rates in points.items()},
        width={n: float(np.median([_half(one) for one in rates])) for n, rates in points.items()},
        ratio={n: _ratios_hold(rates) for n, rates in points.items()},
    )


def _grouped(records: Sequence[Record], size: int) -> list[Sequence[Record]]:
    return [records[n : n + size] for n in range(0, len(records) - size + 1, size)]


def _held(rates: Sequence[Rate]) -> float:
    return float(np.mean([_within(one.low, _BATCH, one.high) for one in rates]))


def _ratios_hold(rates: Sequence[Rate]) -> float:
    over = [ratio(a, b) for a, b in zip(rates, [*rates[1:], rates[0]], strict=True)]
    return float(np.mean([_within(one.low, 1.0, one.high) for one in over]))


def _within(low: float | None, truth: float, high: float | None) -> bool:
    return low is not None and high is not None and low <= truth <= high


def _half(found: Rate) -> float:
    assert found.low is not None
    assert found.high is not None
    return (found.high - found.low) / 2 / found.images_per_second


def _record(seconds: Sequence[float], precision: float) -> Record:
    fields = {"network": "alexnet", "batch_per_device": _BATCH, "warmup_windows": 1}
    trial = make(fields | {"windows": WINDOWS, "precision": precision})
    rank = Rank(
        rank=0,
        host="h",
        process="worker-0",
        seconds=tuple(seconds),
        ends=tuple(np.cumsum(seconds).tolist()),
        images=(_BATCH,) * len(seconds),
    )
    return simulated_record(trial, [rank])


def main() -> None:
    """Parse the command line, simulate and print a Markdown table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.statistics.coverage", description=__doc__
    )
    parser.add_argument(
        "--processes",
        metavar="N",
        type=int,
        default=6000,
        help="Processes per kind of windows [%(default)s]",
    )
    parser.add_argument(
        "--between",
        metavar="FRACTION",
        type=float,
        default=_BETWEEN,
        help="Relative standard deviation between processes [%(default)s]",
    )
    parser.add_argument(
        "--precision",
        metavar="FRACTION",
        type=float,
        default=_PRECISION,
        help="CI half-width that ends a process; 0 runs every window [%(default)s]",
    )
    given = parser.parse_args()
    print("| windows | taken | bias | n = 3 | half-width | ratio | n = 5 | half-width | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, draw in KINDS.items():
        found = simulate(draw, given.processes, between=given.between, precision=given.precision)
        cells = [
            f"{found.held[n]:.1%} | {found.width[n]:.1%} | {found.ratio[n]:.1%}" for n in _REPEATS
        ]
        line = f"| {name} | {found.windows:.1f} | {found.bias:+.2%} | {' | '.join(cells)} |"
        print(line.replace("%", " %").replace("  %", " %"), flush=True)


if __name__ == "__main__":
    main()
