"""Costs of commands, and their table with growth exponents."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds and peak memory of a line; the size of a file that it wrote, if any."""

    seconds: float
    mebibytes: float | None = None
    megabytes: float | None = None


def exponent(sizes: tuple[int, int], seconds: tuple[float, float]) -> float:
    """Return the growth exponent between two sizes: 1 is linear, 2 quadratic."""
    return math.log(seconds[1] / seconds[0]) / math.log(sizes[1] / sizes[0])


def table(names: Sequence[tuple[str, int]], costs: Sequence[Cost]) -> str:
    """Return the lines in Markdown, with exponents from the smaller size before."""
    rows = [
        "| what | points | seconds | exponent | MiB | MB written |",
        "|---|---|---|---|---|---|",
    ]
    before: dict[str, tuple[int, float]] = {}
    for (name, points), cost in zip(names, costs, strict=True):
        grown = ""
        if name in before and points != before[name][0]:
            size, seconds = before[name]
            grown = f"{exponent((size, points), (seconds, cost.seconds)):.1f}"
        before[name] = points, cost.seconds
        sizes = [f"{one:.0f}" if one else "" for one in (cost.mebibytes, cost.megabytes)]
        shown = f"{cost.seconds:.3f}" if cost.seconds < 1 else f"{cost.seconds:.1f}"
        cells = [name, str(points or ""), shown, grown, *sizes]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
