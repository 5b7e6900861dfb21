"""Numbers, intervals and Markdown as text."""

import math
import re
from collections.abc import Iterable, Sequence

from im2rec_tools.terminal import one_line, printable
from results.rates import ASSUMED_SCATTER, Rate, Ratio

# An interval that reaches further, as a factor, is not known.
_FURTHEST = 10
# An interval is told by one number if its smaller side is at least this part of the larger.
_EVEN = 0.9
REHEARSAL_NOTE = "REHEARSAL: the fake engine's scripted times, not measurements"
# Brackets alone are text, as in [153, 216]; what follows them makes a link.
_MARK = re.compile(r"[\\`*|$~&]|\](?=[(\[])")
_PLAIN = re.compile(r"[A-Za-z0-9.,:/%()±=-]*(?: [A-Za-z0-9.,:/%()±=-]+)*")
# An underscore within a word, as in dist_sync, is one to Markdown too.
_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
# What begins a heading, quote, list, rule or the target of a link if a line begins with it.
_START = re.compile(r"([0-9]{1,9}(?=[.)](?: |$))|(?=[-#>+=\[]))")
_FENCE = re.compile("~+")


def list_names(names: Sequence[str], most: int, last: str = " and ") -> str:
    """'a, b and 3 more': the first names, and how many more than `most` there are."""
    more = f"{last}{len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def significant(value: float, digits: int = 3) -> str:
    """The value with so many significant digits and no exponent: 61938, 4.13, 0.0764."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(decimals, 0)}f}"


def format_speedup(ratio: Ratio) -> str:
    """1.97, 17.4, 135.5: a speed-up is read against a whole number of devices."""
    return significant(ratio.value, 4 if ratio.value >= 100 else 3)


def format_percent(ratio: Ratio) -> str:
    """'90 ± 3 %' with its 95 % interval; '90 %' where that is nothing or unknown.

    '86 % [47, 156]' with both ends if its sides differ by more than a tenth; '90 % (unsure)' where
    one is larger than the value itself.
    """
    value = f"{100 * ratio.value:.0f}"
    if is_uninformative(ratio):
        return f"{value} % (unsure)"
    low, high = _ends(ratio)
    below, above = 100 * (ratio.value - low), 100 * (high - ratio.value)
    side = max(below, above)
    decimals = 0 if side >= 0.95 else 1
    if side < 0.05:
        return f"{value} %"
    if min(below, above) >= _EVEN * side:
        return f"{value} ± {side:.{decimals}f} %"
    return f"{value} % [{100 * low:.{decimals}f}, {100 * high:.{decimals}f}]"


def is_uninformative(ratio: Ratio) -> bool:
    """Whether its interval is so wide that the value says nothing: a side is larger than it."""
    low, high = _ends(ratio)
    return max(ratio.value - low, high - ratio.value) > ratio.value


def format_interval(rate: Rate) -> str:
    """'8.79 - 12.6' images per second; 'unknown' where an end is more than ten times away."""
    if rate.low is None or rate.high is None:
        return "one window"
    if rate.high > _FURTHEST * rate.images_per_second:
        return "unknown"
    return f"{significant(rate.low)} - {significant(rate.high)}"


def error_bar_note(rates: Iterable[Rate | None]) -> str:
    """What error bars are; of points that ran once, what they assume."""
    assumed = any(rate is not None and rate.assumed for rate in rates)
    scatter = f" (n = 1: {100 * ASSUMED_SCATTER:g} % between processes assumed)"
    return "95 % intervals" + (scatter if assumed else "")


def _ends(ratio: Ratio) -> tuple[float, float]:
    """The ends of its interval; the value itself for one that is not known."""
    low, high = (ratio.value if end is None else end for end in (ratio.low, ratio.high))
    return low, high


def in_cell(text: str) -> str:
    """The text in one cell of a table."""
    if _PLAIN.fullmatch(text):
        return text
    text = _EDGE.sub(r"\\_", _MARK.sub(r"\\\g<0>", one_line(text)))
    return text.replace("<", "&lt;")  # a backslash before it is no help to what looks for marks


def in_line(text: str) -> str:
    """The text in one line, also at its beginning."""
    line = in_cell(text)
    found = _START.match(line)
    return f"{found[1]}\\{line[found.end() :]}" if found else line


def fenced(lines: list[str], language: str = "") -> str:
    """A block of code, whose fence is longer than any run of its marks within."""
    text = "\n".join(map(printable, lines))
    fence = "~" * max(3, *(len(marks) + 1 for marks in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"
