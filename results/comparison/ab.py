"""Two settings measured in turn, A B B A: their ratio and what can be detected."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from statistics import fmean, stdev

from scipy.special import stdtrit

from bench.statistics.confidence import StandardError
from bench.trial import Trial
from results.comparison import compare
from results.errors import StoreError
from results.rates import ASSUMED_SCATTER, rate_of
from results.record import Identity, Record
from results.store import read_records

# Whatever drifts evenly through a block slows both settings alike.
BLOCK = "ABBA"
_BEYOND = 0.975


@dataclass(frozen=True, kw_only=True)
class Effect:
    """B over A on the logarithmic scale, with the ends of its 95 % interval, from `blocks`.

    noise is the standard deviation between blocks.
    """

    log_ratio: float
    low: float
    high: float
    noise: float
    blocks: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out that there is no difference."""
        return self.low > 0 or self.high < 0


def run_order(a: Trial, b: Trial, blocks: int) -> list[tuple[Trial, int]]:
    """The runs in their order, each a repeat of its trial of its own, also where both are alike."""
    counts: Counter[str] = Counter()
    found = []
    for side in BLOCK * blocks:
        trial = a if side == "A" else b
        found.append((trial, counts[trial.key]))
        counts[trial.key] += 1
    return found


def block_log_ratios(rates: Sequence[float]) -> list[float]:
    """Of each block, log(B / A) between its mean logarithms; rates in the order of running."""
    logs = [math.log(rate) for rate in rates]
    whole = range(0, len(logs) - len(BLOCK) + 1, len(BLOCK))
    return [((logs[n + 1] + logs[n + 2]) - (logs[n] + logs[n + 3])) / 2 for n in whole]


def effect(rates: Sequence[float]) -> Effect:
    """Student's t over the blocks, of which there have to be two; rates in the order of running."""
    found = block_log_ratios(rates)
    mean, noise = fmean(found), stdev(found)
    half = float(stdtrit(len(found) - 1, _BEYOND)) * noise / math.sqrt(len(found))
    return Effect(log_ratio=mean, low=mean - half, high=mean + half, noise=noise, blocks=len(found))


def noise(rates: Sequence[float]) -> float:
    """Standard deviation between blocks; of one block alone, by how its runs of a side differ."""
    found = block_log_ratios(rates)
    if len(found) > 1:
        return stdev(found)
    first, second, third, fourth = (math.log(rate) for rate in rates[: len(BLOCK)])
    # A block's difference is of two means of two runs each: it scatters as one run does.
    return math.sqrt(((first - fourth) ** 2 + (second - third) ** 2) / 4)


def detectable_difference(noise: float, blocks: int) -> float:
    """The relative difference that is found in 9 of 10 measurements of so many blocks."""
    error = StandardError(size=noise / math.sqrt(blocks), degrees_of_freedom=blocks - 1)
    return compare.detectable_difference(error, points=1)


def percent(share: float) -> str:
    """A relative difference for people: '4.8', or '0.31' where it is below 1 %."""
    value = 100 * share
    return f"{value:.1f}" if abs(value) >= 0.95 else f"{value:.2g}"


def effect_sentence(found: Effect) -> str:
    """What was found, as one would tell it."""
    low, high = math.expm1(found.low), math.expm1(found.high)
    if found.low > 0:
        by = percent(math.expm1(found.log_ratio))
        return f"B is {by} % faster than A (95 % {percent(low)} .. {percent(high)} %)"
    if found.high < 0:
        by = percent(-math.expm1(found.log_ratio))
        return f"B is {by} % slower than A (95 % {percent(-high)} .. {percent(-low)} %)"
    least = percent(detectable_difference(found.noise, found.blocks))
    return (
        f"no difference seen (B against A: 95 % {percent(low)} .. {percent(high)} %); one of "
        f"{least} % would have been found in 9 of 10 such measurements"
    )


def power_sentence(records: Sequence[Record], blocks: int) -> str:
    """The smallest difference that so many blocks find, by the runs so far or as assumed."""
    known = len(records) // len(BLOCK)
    spread = noise([rate_of(one) for one in records]) if known else ASSUMED_SCATTER
    why = (
        f"as in the {known} measured"
        if known > 1
        else "as in the first one, which alone says little"
    )
    least = percent(detectable_difference(spread, blocks))
    return (
        f"{blocks} blocks of A B B A find a difference of {least} % in "
        f"9 of 10 measurements, where runs scatter by {percent(spread)} %, "
        f"{why if known else 'which is assumed: nothing is measured yet'}"
    )


def good_records(folder: Path, identities: Sequence[Identity]) -> list[Record]:
    """The good records of these runs, in their order, up to the first that has none."""
    good = {one.identity: one for one in read_records(folder) if one.status == "ok"}
    return [good[name] for name in takewhile(good.__contains__, identities)]


def failure_sentence(folder: Path, identities: Sequence[Identity]) -> str:
    """How many of these runs have no number, and why the first has none."""
    newest = {one.identity: one for one in read_records(folder)}
    failed = [newest[name] for name in identities if newest[name].status != "ok"]
    first = failed[0]
    return (
        f"{len(failed)} of {len(identities)} runs have no number, the first: {first.trial.name}: "
        f"{first.status}: {first.message}; run it again to go on"
    )


def build_lines(records: Sequence[Record]) -> list[str]:
    """What A and B ran, of records in the order of running; none where none trained.

    Raises StoreError where a side changed its build meanwhile.
    """
    found = {side: _builds(records, side) for side in "AB"}
    for side, builds in found.items():
        if len(builds) > 1:
            raise StoreError(
                f"{side} ran different builds ({'; '.join(builds)}): its rates cannot be taken "
                f"together; measure with another --run"
            )
    if found["A"] == found["B"]:
        return [f"A and B ran {one}" for one in found["A"]]
    return [f"{side} ran {one}" for side, builds in found.items() for one in builds]


def _builds(records: Sequence[Record], side: str) -> list[str]:
    """Each build of that side's workers in words, once, by the first place it was seen at."""
    own = [record for n, record in enumerate(records) if BLOCK[n % len(BLOCK)] == side]
    facts = [rank.facts for record in own for rank in record.ranks]
    # Records of before tell none, nor do rehearsals.
    told = [one for one in facts if "mxnet_digest" in one]
    text = "MXNet {mxnet} ({mxnet_library}, digest {mxnet_digest}) on Python {python}"
    return list({one["mxnet_digest"]: text.format_map(one) for one in reversed(told)}.values())
