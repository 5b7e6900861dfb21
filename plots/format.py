"""Numbers, intervals, Markdown and LaTeX as text."""

import math
import re
from collections.abc import Iterable, Sequence

from im2rec_tools.terminal import one_line, printable
from results.rates import ASSUMED_SCATTER, Rate, Ratio

# An interval that reaches further than this factor is printed as unknown.
_FURTHEST = 10
# Print ± if the smaller side of an interval is at least this fraction of the larger.
_EVEN = 0.9
REHEARSAL_NOTE = "SIMULATED: scripted times of the simulated engine, not measurements"
# Brackets alone are text, as in [153, 216]; a bracket or parenthesis after them makes a link.
_MARK = re.compile(r"[\\`*|$~&]|\](?=[(\[])")
_PLAIN = re.compile(r"[A-Za-z0-9.,:/%()±=-]*(?: [A-Za-z0-9.,:/%()±=-]+)*")
# Markdown prints an underscore within a word, as in dist_sync, literally.
_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
# At the start of a line these begin a heading, quote, list, rule or link target.
_START = re.compile(r"([0-9]{1,9}(?=[.)](?: |$))|(?=[-#>+=\[]))")
_FENCE = re.compile("~+")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    '"': "''",  # LaTeX's default font encoding has no straight quotation mark
    **{one: f"\\{one}" for one in "&%$#_{}"},
}
_ESCAPED = re.compile("|".join(map(re.escape, _LATEX)))
# Characters that pdfLaTeX cannot print without further packages.
_FOREIGN = re.compile("[^\x20-\x7e\u00c0-\u00ff]")
# Statuses whose stored names are no standard terms.
STATUS_WORDS = {
    "unstable": "no steady state",
    "hung": "stalled",
    "lost": "host lost",
    "timeout": "rendezvous timeout",
}


def status_text(status: str) -> str:
    """Return a status with its standard term: 'hung (stalled)'."""
    word = STATUS_WORDS.get(status) if status != "timeout" else None
    return f"{status} ({word})" if word else status


def list_names(names: Sequence[str], most: int, last: str = " and ") -> str:
    """Return 'a, b and 3 more': the first `most` names and the count of the others."""
    more = f"{last}{len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def significant(value: float, digits: int = 3) -> str:
    """Format with `digits` significant digits, no exponent: 61938, 4.13, 0.0764."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(decimals, 0)}f}"


def format_speedup(ratio: Ratio) -> str:
    """Format a speed-up (1.97, 17.4, 135.5) for comparison with a device count.

    '1.97 (uncertain)' if a side of the CI is larger than the value.
    """
    text = significant(ratio.value, 4 if ratio.value >= 100 else 3)
    return f"{text} (uncertain)" if is_uninformative(ratio) else text


def format_percent(ratio: Ratio) -> str:
    """Return '90 ± 3 %' with the 95 % CI; '90 %' if the CI has no width or is unknown.

    '86 % [47, 156]' with both ends if the sides differ by more than a tenth; '90 % (uncertain)' if
    a side is larger than the value.
    """
    value = f"{100 * ratio.value:.0f}"
    if is_uninformative(ratio):
        return f"{value} % (uncertain)"
    low, high = _ends(ratio)
    below, above = 100 * (ratio.value - low), 100 * (high - ratio.value)
    side = max(below, above)
    decimals = 0 if side >= 0.95 else 1
    if side < 0.05:
        return f"{value} %"
    if min(below, above) >= _EVEN * side:
        return f"{value} ± {side:.{decimals}f} %"
    return f"{value} % [{100 * low:.{decimals}f}, {100 * high:.{decimals}f}]"


def format_rate(rate: Rate) -> str:
    """Return a throughput with its CI: '16.3 ± 0.6', or '22.9 [18.5, 28.4]' if uneven."""
    value, low, high = rate.images_per_second, rate.low, rate.high
    text = significant(value)
    if low is None or high is None:
        return text
    if is_uninformative(rate.ratio):
        return f"{text} (uncertain)"
    side = max(value - low, high - value)
    if min(value - low, high - value) >= _EVEN * side:
        decimals = len(text.partition(".")[2])
        return f"{text} ± {side:.{decimals}f}" if round(side, decimals) else text
    return f"{text} [{significant(low)}, {significant(high)}]"


def is_uninformative(ratio: Ratio) -> bool:
    """Return whether a side of the CI is larger than the value."""
    return ratio.is_uninformative


def format_interval(rate: Rate) -> str:
    """Return '8.79 - 12.6' (images/s); 'unknown' if the upper end is above 10 x value."""
    if rate.low is None or rate.high is None:
        return "one window"
    if rate.high > _FURTHEST * rate.images_per_second:
        return "unknown"
    return f"{significant(rate.low)} - {significant(rate.high)}"


def error_bar_note(rates: Iterable[Rate | None]) -> str:
    """Return the meaning of error bars, with the assumption behind those of n = 1."""
    assumed = has_assumed_scatter(rates)
    scatter = f" (n = 1: run-to-run SD of {100 * ASSUMED_SCATTER:g} % assumed)"
    return "95 % CI" + (scatter if assumed else "")


def has_assumed_scatter(rates: Iterable[Rate | None]) -> bool:
    """Return whether a CI rests on the assumed standard deviation between runs."""
    return any(rate is not None and rate.assumed for rate in rates)


def _ends(ratio: Ratio) -> tuple[float, float]:
    """Return the ends of the CI; the value itself replaces an unknown end."""
    low, high = (ratio.value if end is None else end for end in (ratio.low, ratio.high))
    return low, high


def in_cell(text: str) -> str:
    """Escape a text for one cell of a Markdown table."""
    if _PLAIN.fullmatch(text):
        return text
    text = _EDGE.sub(r"\\_", _MARK.sub(r"\\\g<0>", one_line(text)))
    return text.replace("<", "&lt;")  # HTML parsers ignore a backslash before it


def in_line(text: str) -> str:
    """Escape a text for one line of Markdown, including the line's start."""
    line = in_cell(text)
    found = _START.match(line)
    return f"{found[1]}\\{line[found.end() :]}" if found else line


def fenced(lines: list[str], language: str = "") -> str:
    """Return a code block whose fence is longer than any such run of marks inside."""
    text = "\n".join(map(printable, lines))
    fence = "~" * max(3, *(len(marks) + 1 for marks in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def latex_text(text: str) -> str:
    """Return text that LaTeX prints as it is; '?' replaces what it cannot print."""
    signs = "±\N{MULTIPLICATION SIGN}"
    known = "".join(one if one in signs else _FOREIGN.sub("?", one) for one in one_line(text))
    return _ESCAPED.sub(lambda found: _LATEX[found[0]], known)
