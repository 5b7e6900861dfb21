"""The one exception for what a person has to mend in what they asked for."""

import difflib
from collections.abc import Iterable

from im2rec_tools.words import brief, is_whole, plain, quoted

# Those of words are for the packages above, which see no further down than this one.
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
