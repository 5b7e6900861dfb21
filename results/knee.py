"""Where more decoding threads stop to help: a sentence over the points that only read."""

from collections.abc import Sequence
from dataclasses import replace

from bench.trial import Trial
from results.scaling import ScalingRow

# Fewer threads that reach this part of the best rate are as good: differences below are noise.
_AS_GOOD = 0.95


def knees(rows: Sequence[ScalingRow]) -> list[str]:
    """A sentence for each series of test-io points that differ in their threads alone."""
    series: dict[Trial, dict[int, float]] = {}
    for row in rows:
        if row.trial.mode == "test-io" and row.rate:
            alike = replace(row.trial, data_nthreads=1)
            series.setdefault(alike, {})[row.trial.data_nthreads] = row.rate.images_per_second
    return [_knee(rates) for rates in series.values() if len(rates) > 1]


def _knee(rates: dict[int, float]) -> str:
    best = max(rates.values())
    least = min(threads for threads, rate in rates.items() if rate >= _AS_GOOD * best)
    gives = "1 thread gives" if least == 1 else f"{least} threads give"
    if least == max(rates):
        end = "the most of those measured: no knee up to there"
    else:
        end = "more do not help (knee)"
    return f"{gives} {rates[least]:,.0f} images/s; {end}."
