"""Words of files and options: parsed as numbers, and quoted in error lines."""

import math
import re

# Characters of a quoted word; what is longer ends in "...".
MOST_QUOTED = 60
# Characters of a text that another library composed, such as a parser's error.
_MOST_SAID = 200
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})(?:[eE][-+]?[0-9]{1,9})?")


def quoted(value: object) -> str:
    """A word or value of a file or option as an error line shows it, cut where it is long."""
    cut = value[:MOST_QUOTED] if isinstance(value, str | bytes) else value
    try:
        text = repr(cut)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a deep nest
        return f"a long {type(value).__name__}"
    if isinstance(value, str | bytes):
        return text + "..." * (len(value) > MOST_QUOTED)
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}..."


def brief(text: object) -> str:
    """What another library says of a file, in one line, cut where it is long."""
    line = " ".join(str(text).encode("utf-8", "backslashreplace").decode().split())
    return line if len(line) <= _MOST_SAID else f"{line[:_MOST_SAID]}..."


def is_whole(text: str) -> bool:
    """Whether the text is a whole number, 0 or more, of a length that a count can have."""
    return text.isascii() and text.isdecimal() and len(text) <= 12


def plain(text: str) -> str:
    """The text for int or float, which also take '1_0' and digits of other scripts: ValueError."""
    if not text.isascii() or "_" in text:
        raise ValueError(f"expected a number in ASCII digits, got {quoted(text)}")
    return text


def number(text: str) -> float:
    """The number that the text is, in ASCII digits; NaN where it is none or not finite."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if math.isfinite(value) else math.nan
