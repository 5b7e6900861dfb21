"""The ledger of a job's ranks: who computes more slowly than the others, beyond noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bench.notes import Note, NoteKind
from bench.statistics.confidence import Numbers
from results.record import BareRank, BareRecord

# A rank this much slower matters to a job that waits for it.
_LEAST_EXCESS = 0.05
_FALSE_ALARMS = 1e-3
_LEAST_PROBES = 3


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A rank whose own computing takes 1 + `excess` times that of the median of the others."""

    rank: int
    host: str
    excess: float


def stragglers(ranks: Sequence[BareRank]) -> list[Straggler]:
    """The ranks that are slower than the others by 5 % or more, beyond noise; the slowest first.

    Only ranks that train as many images a step are compared: time does not grow in proportion.

    A probe's excess is the logarithm of a rank's seconds over the median of the other ranks' in the
    same probe, so what slows all at once does not count. Mean and median of a rank's excesses both
    have to reach 5 %, and the mean to be too large for noise: less than one job in a thousand has a
    false alarm (Bonferroni over the ranks). Noise is the rank's own spread over the probes, or the
    median of all ranks' spreads where that is larger.
    """
    alike: dict[tuple[int, ...], list[BareRank]] = {}
    for rank in ranks:
        alike.setdefault(rank.images, []).append(rank)
    named = [slow for group in alike.values() for slow in _slow(group, len(ranks))]
    return sorted(named, key=lambda one: -one.excess)


def _slow(ranks: Sequence[BareRank], looked_at: int) -> list[Straggler]:
    probes = min((len(rank.own_seconds) for rank in ranks), default=0)
    if len(ranks) < 2 or probes < _LEAST_PROBES:
        return []
    logs = np.log([rank.own_seconds[:probes] for rank in ranks])
    excess = logs - _median_of_others(logs)
    spread = excess.std(axis=1, ddof=1)
    noise = np.maximum(spread, np.median(spread)) / math.sqrt(probes)
    mean, middle = excess.mean(axis=1), np.median(excess, axis=1)
    beyond = NormalDist().inv_cdf(1 - _FALSE_ALARMS / looked_at) * noise
    slow = np.minimum(mean, middle) >= np.maximum(math.log1p(_LEAST_EXCESS), beyond)
    return [
        Straggler(rank=rank.rank, host=rank.host, excess=math.expm1(middle[n]))
        for n, rank in enumerate(ranks)
        if slow[n]
    ]


def _median_of_others(logs: Numbers) -> Numbers:
    """For each rank and probe (rows, columns), the median of the other ranks in that probe."""
    ordered = np.sort(logs, axis=0)
    place = np.argsort(np.argsort(logs, axis=0), axis=0)
    lower, upper = (len(logs) - 2) // 2, (len(logs) - 1) // 2
    columns = np.arange(logs.shape[1])
    # Without its own value, those from its place on move up by one.
    middle: Numbers = np.stack([ordered[n + (place <= n), columns] for n in (lower, upper)])
    return np.asarray(middle.mean(axis=0))


def slow_ranks(record: BareRecord) -> list[Note]:
    """A note for each straggler, the slowest first."""
    return [
        Note(NoteKind.SLOW_RANK, {"excess": one.excess}, {"rank": one.rank, "host": one.host})
        for one in stragglers(record.ranks)
    ]
