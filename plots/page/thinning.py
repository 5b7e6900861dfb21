"""Which of many windows and ranks a page keeps: always the extremes, and an even sample."""

import math
from collections.abc import Sequence

from results.repeat import Pace


def even(count: int, keep: int) -> list[int]:
    """At most `keep` places of `count`, the first and the last among them, evenly spread."""
    if count <= keep:
        return list(range(count))
    if keep < 2:
        return [0][:keep]
    return sorted({round(place * (count - 1) / (keep - 1)) for place in range(keep)})


def extremes(values: Sequence[float], keep: int) -> list[int]:
    """Places of the least and the greatest value of each of keep / 2 stretches, in order."""
    if len(values) <= keep:
        return list(range(len(values)))
    size = math.ceil(len(values) / max(1, keep // 2))
    stretches = [range(at, min(at + size, len(values))) for at in range(0, len(values), size)]
    found = [pick(one, key=values.__getitem__) for one in stretches for pick in (min, max)]
    return sorted(set(found))


def spread(values: Sequence[float], keep: int) -> list[float]:
    """At most `keep` of the values, by size: the least, the greatest, and evenly between them."""
    ordered = sorted(values)
    return [ordered[place] for place in even(len(ordered), keep)]


def slowness(pace: Pace) -> float:
    """Seconds by which ranks are compared: their own computing, where that was probed.

    Ranks that wait for each other all have the slowest one's windows.
    """
    return pace.seconds if pace.own_seconds is None else pace.own_seconds


def ranks(paces: Sequence[Pace], keep: int) -> list[Pace]:
    """At most about `keep` ranks in order: half of them the slowest, the fastest, some between."""
    if len(paces) <= keep:
        return list(paces)
    ordered = sorted(paces, key=slowness, reverse=True)
    chosen = {one.rank for one in [*ordered[: max(1, keep // 2)], ordered[-1]]}
    chosen.add(max(paces, key=lambda one: one.seconds).rank)
    rest = [one for one in paces if one.rank not in chosen]
    chosen |= {rest[place].rank for place in even(len(rest), max(0, keep - len(chosen)))}
    return [one for one in paces if one.rank in chosen]
