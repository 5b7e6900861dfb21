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


# What each line should take at most, by its name and number of points.
WANTED = {
    ("digest, 256 ranks, logs", 100): "2 s",
    ("digest, 256 ranks, logs", 1000): "15 s, 20 MB",
    ("resume, 256 ranks", 1000): "3 s",
    ("report.show, families", 3000): "8 s",
    ("report.show, one_family", 3000): "8 s",
    ("report.build, families", 3000): "12 s",
    ("report.build, one_family", 3000): "12 s",
    ("report.build, 256 ranks, logs", 1000): "10 s, 500 MiB",
    ("report.show, 1024 ranks", 1000): "300 MiB",
    ("fab --list", 0): "1.5 times fab --version",
    ("report.build, demo", 0): "2 s",
    ("a fake process", 0): "0.045 s",
    ("27 simulated points", 0): "15 s",
}


def exponent(sizes: tuple[int, int], seconds: tuple[float, float]) -> float:
    """Return the growth exponent between two sizes: 1 is linear, 2 quadratic."""
    return math.log(seconds[1] / seconds[0]) / math.log(sizes[1] / sizes[0])


def table(names: Sequence[tuple[str, int]], costs: Sequence[Cost]) -> str:
    """Return the lines in Markdown, with exponents from the smaller size before."""
    rows = [
        "| what | points | seconds | exponent | MiB | MB written | wanted |",
        "|---|---|---|---|---|---|---|",
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
        cells = [name, str(points or ""), shown, grown, *sizes, WANTED.get((name, points), "")]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)
