"""The one exception for what a person has to mend in what they asked for."""

import contextlib
import difflib
import math
from collections.abc import Iterable

from im2rec_tools.errors import brief, plain, quoted

# Also for the packages above, which see no further down than this one.
__all__ = ["SmallShareError", "SpecError", "brief", "is_whole", "plain", "quoted", "unknown"]


class SpecError(Exception):
    """A mistake in a sweep, an option or a data path; its text is one line for that person."""


class SmallShareError(SpecError):
    """A worker has fewer images than a batch takes; --auto-batch looks for this class."""


def unknown(what: str, name: object, known: Iterable[str]) -> SpecError:
    """The error for a name that is not among the known ones, with the nearest and all of them."""
    names = list(known)
    near = difflib.get_close_matches(quoted(name)[1:-1], names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return SpecError(f"unknown {what} {quoted(name)}{hint} Known: {', '.join(names)}")


def is_whole(text: str) -> bool:
    """Whether the text is a whole number, 0 or more, of a length that a count can have."""
    return text.isascii() and text.isdecimal() and len(text) <= 12


def parse_int(option: str, text: str, least: int = 1, most: int | None = None) -> int:
    """The whole number that an option was given."""
    if not is_whole(text) or int(text) < least or (most is not None and int(text) > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        raise SpecError(f"{option}: expected a whole number, {bounds}, got {quoted(text)}")
    return int(text)


def parse_float(option: str, text: str) -> float:
    """The number, 0 or more, that an option was given."""
    with contextlib.suppress(ValueError):
        if 0 <= float(plain(text)) < math.inf:
            return float(text)
    raise SpecError(f"{option}: expected a number, 0 or more, got {quoted(text)}")
