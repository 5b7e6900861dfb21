"""Where more decoding threads stop to help: a sentence over the points that only read."""

import math
from collections.abc import Sequence
from dataclasses import replace

from bench.trial import Trial
from results.rates import Rate
from results.scaling import ScalingRow

# Fewer threads that reach this part of the best rate are as good: differences below are noise.
_AS_GOOD = 0.95


def knees(rows: Sequence[ScalingRow]) -> list[str]:
    """A sentence for each series of test-io points that differ in their threads alone."""
    series: dict[Trial, dict[int, Rate]] = {}
    for row in rows:
        if row.trial.mode == "test-io" and row.rate:
            alike = replace(row.trial, data_nthreads=1)
            series.setdefault(alike, {})[row.trial.data_nthreads] = row.rate
    return [_knee(rates) for rates in series.values() if len(rates) > 1]


def _knee(rates: dict[int, Rate]) -> str:
    best = max(rate.images_per_second for rate in rates.values())
    good = [n for n, rate in rates.items() if rate.images_per_second >= _AS_GOOD * best]
    least = min(good)
    gives = "1 thread gives" if least == 1 else f"{least} threads give"
    worst = max(map(_unsure, rates.values()))
    if worst > 1 - _AS_GOOD:
        known = f"known to {100 * worst:.0f} % only" if math.isfinite(worst) else "not known well"
        end = f"whether more or fewer do as well cannot be said, the rates are {known}"
    elif least == max(rates):
        end = "the most of those measured: no knee up to there"
    else:
        end = "more do not help (knee)"
    return f"{gives} {rates[least].images_per_second:,.0f} images/s; {end}."


def _unsure(rate: Rate) -> float:
    """Half of the interval, as a part of the rate."""
    if rate.low is None or rate.high is None:
        return math.inf
    return (rate.high - rate.low) / 2 / rate.images_per_second
