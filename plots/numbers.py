"""How numbers are written for people."""

import math

from results.rates import Rate, Ratio

# An interval that reaches further, as a factor, is not known.
_FURTHEST = 10


def significant(value: float, digits: int = 3) -> str:
    """The value with so many significant digits and no exponent: 61938, 4.13, 0.0764."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(decimals, 0)}f}"


def times(ratio: Ratio) -> str:
    """1.97, 17.4, 135.5: a speed-up is read against a whole number of devices."""
    return significant(ratio.value, 4 if ratio.value >= 100 else 3)


def percent(ratio: Ratio) -> str:
    """'90 ± 3 %', the larger side of its 95 % interval; '90 %' where that is nothing or unknown.

    '90 % (unsure)' where that side is larger than the value itself.
    """
    if unsure(ratio):
        return f"{100 * ratio.value:.0f} % (unsure)"
    side = 100 * _side(ratio)
    spread = f" ± {side:.{0 if side >= 0.95 else 1}f}" if side >= 0.05 else ""
    return f"{100 * ratio.value:.0f}{spread} %"


def unsure(ratio: Ratio) -> bool:
    """Whether its interval is so wide that the value says nothing: a side is larger than it."""
    return _side(ratio) > ratio.value


def ratio_of(rate: Rate) -> Ratio:
    """The rate, in images per second, with its interval."""
    return Ratio(value=rate.images_per_second, low=rate.low, high=rate.high)


def interval(rate: Rate) -> str:
    """'8.79 - 12.6' images per second; 'unknown' where an end is more than ten times away."""
    if rate.low is None or rate.high is None:
        return "one window"
    if rate.high > _FURTHEST * rate.images_per_second:
        return "unknown"
    return f"{significant(rate.low)} - {significant(rate.high)}"


def _side(ratio: Ratio) -> float:
    low, high = (ratio.value if end is None else end for end in (ratio.low, ratio.high))
    return max(ratio.value - low, high - ratio.value)
