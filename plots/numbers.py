"""How numbers are written for people."""

import math

from results.rates import Ratio


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
    """'90 ± 3 %', the larger side of its 95 % interval; '90 %' where that is nothing or unknown."""
    low, high = (ratio.value if end is None else end for end in (ratio.low, ratio.high))
    side = 100 * max(ratio.value - low, high - ratio.value)
    spread = f" ± {side:.{0 if side >= 0.95 else 1}f}" if side >= 0.05 else ""
    return f"{100 * ratio.value:.0f}{spread} %"
