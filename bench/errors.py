"""Errors in sweeps, options and data paths, and parsers that raise them."""

import contextlib
import difflib
import math
from collections.abc import Iterable

from im2rec_tools.errors import brief, error_line, plain, quoted

# The packages above import these names from here.
__all__ = [
    "SmallShareError",
    "SpecError",
    "brief",
    "error_line",
    "is_whole",
    "parse_float",
    "parse_int",
    "plain",
    "quoted",
    "unknown",
]


class SpecError(Exception):
    """A mistake in a sweep, an option or a data path.

    Its text is one line for the user.
    """


class SmallShareError(SpecError):
    """A worker has fewer images than a batch; --auto-batch catches this class."""


def unknown(what: str, name: object, known: Iterable[str]) -> SpecError:
    """Return the error for an unknown name: the nearest known name, then all of them."""
    names = list(known)
    near = difflib.get_close_matches(quoted(name)[1:-1], names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return SpecError(f"unknown {what} {quoted(name)}{hint} Known: {', '.join(names)}")


def is_whole(text: str) -> bool:
    """Return whether the text is a whole number of 0 or more with at most 12 digits."""
    return text.isascii() and text.isdecimal() and len(text) <= 12


def parse_int(option: str, text: str, least: int = 1, most: int | None = None) -> int:
    """Parse an option's value as a whole number from least to most.

    Raises SpecError if it is none.
    """
    if not is_whole(text) or int(text) < least or (most is not None and int(text) > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        wanted = f"a whole number, {bounds}"
        raise SpecError(error_line(option, expected=wanted, got=quoted(text)))
    return int(text)


def parse_float(option: str, text: str, fix: str = "") -> float:
    """Parse an option's value as a finite number of 0 or more.

    Raises SpecError if it is none.
    """
    with contextlib.suppress(ValueError):
        if 0 <= float(plain(text)) < math.inf:
            return float(text)
    raise SpecError(error_line(option, expected="a number, 0 or more", got=quoted(text), fix=fix))
