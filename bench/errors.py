"""The one exception for what a person has to mend in what they asked for."""

import difflib
from collections.abc import Iterable


class SpecError(Exception):
    """A mistake in a sweep, an option or a data path; its text is one line for that person."""


class SmallShareError(SpecError):
    """A worker has fewer images than a batch takes; --auto-batch looks for this class."""


def is_whole(text: str) -> bool:
    """Whether the text is a whole number, 0 or more, of a length that a count can have."""
    return text.isascii() and text.isdecimal() and len(text) <= 12


def unknown(what: str, name: object, known: Iterable[str]) -> SpecError:
    """The error for a name that is not among the known ones, with the nearest and all of them."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return SpecError(f"unknown {what} {name!r}{hint} Known: {', '.join(names)}")
