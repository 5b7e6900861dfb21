"""A/B measurement of two settings in A B B A order: ratio and MDE."""

import hashlib
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bench.errors import error_line
from bench.statistics.confidence import StandardError
from bench.trial import Trial
from results.comparison import compare
from results.comparison.pairs import setting_changes
from results.errors import StoreError
from results.progress import SweepUpdate
from results.rates import ASSUMED_SCATTER, rate_of
from results.record import Identity, Record, RepeatStart
from results.store import read_records

# Linear drift within a block affects both settings equally.
BLOCK = "ABBA"
_BEYOND = 0.975
# A minimum detectable effect above this is of no use: a factor of 10.
_TENFOLD = 9.0
# The noise is estimated from few blocks; a measurement ends early only if it is certainly this
# high: with 99 % confidence.
_CERTAIN = 0.99
# The precision that `blocks_needed` aims at.
_USEFUL = 0.1
MOST_BLOCKS = 500
_LONGEST_NAME = 100


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Log ratio B / A with its 95 % CI (low, high), from `blocks` blocks.

    noise is the standard deviation between blocks, on the logarithmic scale.
    """

    log_ratio: float
    low: float
    high: float
    noise: float
    blocks: int

    @property
    def significant(self) -> bool:
        """Whether the 95 % CI excludes a ratio of 1."""
        return self.low > 0 or self.high < 0


def run_order(a: Trial, b: Trial, blocks: int) -> list[tuple[Trial, int]]:
    """Return the runs in order of execution, each with its repeat number.

    Each run is a separate repeat of its trial, also if A and B are identical.
    """
    counts: Counter[str] = Counter()
    found = []
    for side in BLOCK * blocks:
        trial = a if side == "A" else b
        found.append((trial, counts[trial.key]))
        counts[trial.key] += 1
    return found


def block_log_ratios(rates: Sequence[float]) -> list[float]:
    """Return log(B / A) of each complete block, from mean logarithms.

    rates: images/s, in the order of execution.
    """
    logs = [math.log(rate) for rate in rates]
    whole = range(0, len(logs) - len(BLOCK) + 1, len(BLOCK))
    return [((logs[n + 1] + logs[n + 2]) - (logs[n] + logs[n + 3])) / 2 for n in whole]


def effect(rates: Sequence[float]) -> Effect:
    """Estimate the effect by Student's t over two blocks or more.

    rates: images/s, in the order of execution.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - takes long to load; most reports need none

    found = block_log_ratios(rates)
    mean, noise = fmean(found), stdev(found)
    half = float(stdtrit(len(found) - 1, _BEYOND)) * noise / math.sqrt(len(found))
    return Effect(log_ratio=mean, low=mean - half, high=mean + half, noise=noise, blocks=len(found))


def noise(rates: Sequence[float]) -> float:
    """Return the standard deviation between blocks, on the logarithmic scale.

    With one block only, estimate it from the differences between runs of the same side.
    """
    found = block_log_ratios(rates)
    if len(found) > 1:
        return stdev(found)
    first, second, third, fourth = (math.log(rate) for rate in rates[: len(BLOCK)])
    # A block compares two means of two runs each: its variance is that of one run.
    return math.sqrt(((first - fourth) ** 2 + (second - third) ** 2) / 4)


def detectable_difference(noise: float, blocks: int) -> float:
    """Return the minimum detectable effect (relative) at 90 % power."""
    error = StandardError(size=noise / math.sqrt(blocks), degrees_of_freedom=blocks - 1)
    return compare.detectable_difference(error, points=1)


def is_too_noisy(noise: float, blocks: int) -> bool:
    """Return whether that many blocks with this noise would miss a factor of 10."""
    return detectable_difference(noise, blocks) > _TENFOLD


def is_hopeless(rates: Sequence[float], blocks: int) -> bool:
    """Return whether `blocks` blocks will certainly miss a factor of 10.

    Even the lower end of the 99 % CI of the noise so far is then too high. Never after one
    block, and never if the difference is significant already.
    """
    from scipy.special import chdtri  # noqa: PLC0415 - as above

    found = len(block_log_ratios(rates))
    if found < 2 or effect(rates).significant:
        return False
    least = noise(rates) * math.sqrt((found - 1) / float(chdtri(found - 1, 1 - _CERTAIN)))
    return is_too_noisy(least, blocks)


def blocks_needed(noise: float) -> int | None:
    """Return the blocks that detect 10 % with this noise; None if too many."""
    counts = range(2, MOST_BLOCKS + 1)
    place = bisect_left(counts, -_USEFUL, key=lambda count: -detectable_difference(noise, count))
    return counts[place] if place < len(counts) else None


def checkpoints(blocks: int) -> list[int]:
    """Return the numbers of blocks after which the noise is estimated: 1, 2, 4, 8, ..."""
    return [*(2**n for n in range(blocks.bit_length()) if 2**n < blocks), blocks]


def noisy_sentence(noise: float, blocks: int) -> str:
    """Return that the measurement cannot see a factor of 10, and a remedy."""
    needed = blocks_needed(noise)
    more = f", or --blocks {needed}" if needed and needed > blocks else ""
    return (
        f"this machine is too noisy: {blocks} blocks would not show a factor of 10 (run-to-run "
        f"standard deviation {percent(noise)} %). Use an idle machine and a new --run NAME{more}"
    )


def run_name(sweep: str, a: Trial, b: Trial, date: str) -> str:
    """Return a name made of sweep, point, changed settings, their key and the date.

    The key separates settings that the rest does not name, such as the windows. Example:
    'ab-mine-resnet-18-x2-OMP_NUM_THREADS-1-vs-2-3fa2-20261123'.
    """
    changes = setting_changes(a, b)
    if len(changes) == 1:
        (one,) = changes
        values = ("default" if value is None else value for value in (one.a, one.b))
        text = f"{one.name}-{'-vs-'.join(map(str, values))}"
    else:
        text = "-and-".join(one.name for one in changes) or "A-vs-A"
    name = f"ab-{sweep}-{a.label}-x{a.layout.devices}-{text}"
    name = re.sub(r"-{2,}", "-", re.sub(r"[^A-Za-z0-9._-]+", "-", name)).strip("-")
    key = hashlib.sha256(f"{a.key} {b.key}".encode()).hexdigest()[:4]
    return f"{name[:_LONGEST_NAME]}-{key}-{date}"


def percent(share: float) -> str:
    """Format a relative difference in percent: '4.8', or '0.31' if below 1 %."""
    value = 100 * share
    return f"{value:.1f}" if abs(value) >= 0.95 else f"{value:.2g}"


def effect_sentence(found: Effect) -> str:
    """Return the result as a sentence: difference, 95 % CI, or the MDE."""
    low, high = math.expm1(found.low), math.expm1(found.high)
    if found.low > 0:
        by = percent(math.expm1(found.log_ratio))
        return f"B is {by} % faster than A (95 % CI {percent(low)} to {percent(high)} %)"
    if found.high < 0:
        by = percent(-math.expm1(found.log_ratio))
        return f"B is {by} % slower than A (95 % CI {percent(-high)} to {percent(-low)} %)"
    if is_too_noisy(found.noise, found.blocks):
        return noisy_sentence(found.noise, found.blocks)
    least = percent(detectable_difference(found.noise, found.blocks))
    return (
        f"no significant difference (B vs A: 95 % CI {percent(low)} to {percent(high)} %); "
        f"minimum detectable effect {least} % at 90 % power"
    )


def power_sentence(records: Sequence[Record], blocks: int) -> str:
    """Return the minimum detectable effect of that many blocks as a sentence.

    The variance comes from the runs so far; before the first block, it is assumed.
    """
    known = len(records) // len(BLOCK)
    spread = noise([rate_of(one) for one in records]) if known else ASSUMED_SCATTER
    source = (
        f"measured in {known} blocks" if known > 1 else "measured in 1 block only, so uncertain"
    )
    least = f"minimum detectable effect {percent(detectable_difference(spread, blocks))} %"
    if is_too_noisy(spread, blocks):
        least = "a factor of 10 would not be detected"
    return (
        f"{blocks} blocks of A B B A: {least} at 90 % power, for a "
        f"run-to-run standard deviation of {percent(spread)} % "
        f"({source if known else 'assumed: no runs yet'})"
    )


def labeled(updates: Iterable[SweepUpdate], order: Sequence[Identity]) -> Iterator[SweepUpdate]:
    """Yield a sweep's updates; each start is named by block and side."""
    blocks = len(order) // len(BLOCK)
    for update in updates:
        if isinstance(update, RepeatStart):
            block, place = divmod(order.index(update.identity), len(BLOCK))
            name = f"block {block + 1} of {blocks}, {BLOCK[place]}"
            yield replace(update, name=name)
        else:
            yield update


def until_ended(
    updates: Iterable[SweepUpdate], runs: Collection[Identity]
) -> Iterator[SweepUpdate]:
    """Yield a sweep's updates until these runs have ended; nothing without runs.

    The rest of `updates` is left for the next call.
    """
    left = set(runs)
    for update in updates if left else ():
        yield update
        if isinstance(update, Record):
            left.discard(update.identity)
        if not left:
            return


def good_records(folder: Path, identities: Sequence[Identity]) -> list[Record]:
    """Return the runs' successful records, in order, up to the first missing one."""
    good = {one.identity: one for one in read_records(folder) if one.status == "ok"}
    return [good[name] for name in takewhile(good.__contains__, identities)]


def failed_records(folder: Path, identities: Sequence[Identity]) -> list[Record]:
    """Return the newest records of these runs that have no result."""
    newest = {one.identity: one for one in read_records(folder)}
    found = (newest.get(name) for name in identities)
    return [one for one in found if one and one.status != "ok"]


def build_lines(records: Sequence[Record]) -> list[str]:
    """Return the build of A and B as lines; none if no record names a build.

    records: in the order of execution. Raises StoreError if one side ran several builds.
    """
    found = {side: _builds(records, side) for side in "AB"}
    for side, builds in found.items():
        if len(builds) > 1:
            raise StoreError(
                error_line(
                    side,
                    expected="one build of the framework for every run",
                    got="; ".join(builds),
                    fix="Measure again with a new --run NAME",
                )
            )
    if found["A"] == found["B"]:
        return [f"A and B ran {one}" for one in found["A"]]
    return [f"{side} ran {one}" for side, builds in found.items() for one in builds]


def _builds(records: Sequence[Record], side: str) -> list[str]:
    """Return each distinct build of that side's workers as text, in order."""
    own = [record for n, record in enumerate(records) if BLOCK[n % len(BLOCK)] == side]
    facts = [rank.facts for record in own for rank in record.ranks]
    # Hosts may have the same build at different paths.
    found = dict(_build(one) for one in reversed(facts))
    return [text for key, text in found.items() if key]


def _build(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return what identifies a framework's build, and its text.

    Both are empty for simulations and for records before digests.
    """
    if "mxnet_digest" in facts:
        text = "MXNet {mxnet} ({mxnet_library}, digest {mxnet_digest}) on Python {python}"
        return facts["mxnet_digest"], text.format_map(facts)
    if "torch" in facts:
        return facts["torch"], "PyTorch {torch} on Python {python}".format_map(facts)
    return "", ""
