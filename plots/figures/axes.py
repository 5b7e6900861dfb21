"""The axes of the figure: which ticks they have and how far they reach."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

# Width of a digit of a tick label, and of the report's device axis.
_DIGIT_INCHES = 0.075
_REPORT_INCHES = _DIGIT_INCHES / 0.022
# Space at both ends of a linear device axis, as a fraction of its reach.
_MARGIN = 0.08
# Digits of decimal ticks: the longer the axis (see _REACHES), the fewer.
_REACHES = (100_000, 20, 6)
_DECIMALS = ((1,), (1, 2, 5), (1, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8))
# More grid lines than this hide the data, and more ticks are a bar.
_MOST_GRID, _MOST_TICKS = 20, 100


def device_axis(axes: Axes, counts: Sequence[int], inches: float = _REPORT_INCHES) -> None:
    """Set a logarithmic device axis, `inches` long, with ticks at the measured counts.

    Of more than a hundred counts, only those with a label have a tick.
    """
    axes.set_xscale("log", base=2)
    if counts:
        axes.set_xlim(counts[0] / 1.35, counts[-1] * 1.35)
    named = readable_counts(counts, inches)
    _device_ticks(axes, counts if len(counts) <= _MOST_TICKS else named, named)


def linear_device_axis(axes: Axes, counts: Sequence[int], inches: float) -> None:
    """Set a linear device axis, `inches` long, with ticks at the measured counts."""
    axes.set_xscale("linear")
    reach = counts[-1] - counts[0] or 1
    axes.set_xlim(counts[0] - _MARGIN * reach, counts[-1] + _MARGIN * reach)
    places = {count: (count - counts[0]) / reach / (1 + 2 * _MARGIN) for count in counts}
    named = _readable(counts, places, inches)
    _device_ticks(axes, named, named)


def _device_ticks(axes: Axes, counts: Sequence[int], named: Sequence[int]) -> None:
    axes.xaxis.set_major_locator(FixedLocator([float(count) for count in counts]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("devices")
    if len(counts) > _MOST_GRID:
        axes.grid(visible=False, axis="x")
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if value in named else "")
    )


def readable_counts(counts: Sequence[int], inches: float = _REPORT_INCHES) -> list[int]:
    """Return the counts whose labels fit on the axis, including first and last."""
    if len(counts) < 2:
        return list(counts)
    whole = math.log(counts[-1] / counts[0]) + 2 * math.log(1.35)
    return _readable(counts, {count: math.log(count) / whole for count in counts}, inches)


def _readable(counts: Sequence[int], places: Mapping[int, float], inches: float) -> list[int]:
    """Return the counts whose labels fit at these places, fractions of the axis."""
    kept, digit = [counts[-1]], _DIGIT_INCHES / inches
    for count in reversed(counts[:-1]):
        ends = (count, kept[-1]) if count == counts[0] else (counts[0], count, kept[-1])
        gaps = pairwise(ends)
        if all(places[b] - places[a] > digit * (1 + len(f"{a}{b}") / 2) for a, b in gaps):
            kept.append(count)
    return sorted({counts[0], *kept})


def log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Set a logarithmic axis around the values; much wider CIs run off it."""
    axes.set_yscale("log", base=2)
    if values:
        axes.set_ylim(min(values) / 1.6, max(values) * 1.6)
        if max(values) / min(values) < 8:
            axes.yaxis.set_major_locator(LogLocator(base=2, subs=(1.0, 1.5)))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 8 else f"{value:g}")
    )
    axes.yaxis.set_minor_formatter(NullFormatter())


def decimal_axis(axes: Axes, values: Sequence[float]) -> None:
    """Set a logarithmic axis with ticks at 1, 2 and 5 times powers of ten."""
    axes.set_yscale("log", base=10)
    if values:
        axes.set_ylim(min(values) / 1.6, max(values) * 1.6)
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(FixedLocator(decimal_ticks(low, high)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.10g}"))


def decimal_ticks(low: float, high: float) -> list[float]:
    """Return ticks between these ends: powers of ten, and others if there is room."""
    digits = _DECIMALS[sum(high / low < reach for reach in _REACHES)]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [float(f"{digit}e{power}") for power in powers for digit in digits]
    return [tick for tick in found if low <= tick <= high]


def zero_based_axis(axes: Axes, values: Sequence[float], least: float) -> None:
    """Set a linear axis from 0 to 1.3 times the largest value, at least to `least`."""
    axes.set_ylim(0, max([least, *(1.3 * value for value in values)]))
