"""The one exception for what a person has to mend in what they asked for."""

import contextlib
import difflib
import math
from collections.abc import Iterable
from typing import Any, get_args, get_origin

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


# Above any number that means something here, and below where floats end.
_LARGEST = 1e30
# Of a whole number; fields that decide how much is made have a smaller one of their own.
MOST = 10**12
_WORDS = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}


def checked(name: str, kind: Any, value: Any) -> Any:
    """The value as a field of this type holds it: lists become tuples, floats of whole numbers.

    `kind` is bool, int, float, str, tuple[one of these, ...] or one of these or None. Raises
    SpecError naming the field.
    """
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        if isinstance(value, list | tuple) and all(_is_a(item, part) for part in value):
            return tuple(
                _bounded(name, part if isinstance(part, item) else item(part)) for part in value
            )
        # An environment may hold secrets, which an error line does not show.
        got = f"a {type(value).__name__}" if name == "env" else quoted(value)
        raise SpecError(f"{name}: expected a list of {_WORDS[item.__name__]}s, got {got}")
    plain = get_args(kind)[0] if get_args(kind) else kind
    if value is None and kind != plain:
        return None
    if not _is_a(plain, value):
        a = "" if plain is bool else "a "
        raise SpecError(f"{name}: expected {a}{_WORDS[plain.__name__]}, got {quoted(value)}")
    return _bounded(name, plain(value))


def _is_a(kind: Any, value: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and abs(value) < _LARGEST
    return isinstance(value, kind)


def _bounded(name: str, value: Any) -> Any:
    """The value; SpecError for a whole number that nothing has so many of."""
    if isinstance(value, int) and abs(value) > MOST:
        raise SpecError(f"{name}: expected a whole number up to {MOST}, got {quoted(value)}")
    return value


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
