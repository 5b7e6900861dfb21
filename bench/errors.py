"""Errors in sweeps, options and data paths, and parsers that raise them."""

import contextlib
import difflib
import math
import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec

from im2rec_tools.errors import brief, error_line, plain, quoted
from im2rec_tools.terminal import echo

# The packages above import these names from here.
__all__ = [
    "SmallShareError",
    "SpecError",
    "brief",
    "check_python",
    "error_line",
    "is_whole",
    "parse_float",
    "parse_int",
    "plain",
    "quoted",
    "toml_error",
    "unknown",
]


class SpecError(Exception):
    """A mistake in a sweep, an option or a data path.

    Its text is one line for the user.
    """


class TomlError(SpecError):
    """A mistake in a TOML file; `lines` shows its place below the error."""

    def __init__(self, error: str, *shown: str) -> None:
        super().__init__(error)
        self.lines = (error, *shown)


_MXNET = ("mxnet", "MXNet", "environment")


def check_python(program: str) -> None:
    """Exit with 2 and one line if this Python lacks the framework to train with."""
    torch = "--engine torch" in " ".join(sys.argv).replace("=", " ")
    package, title, maker = ("torch", "PyTorch", "torch") if torch else _MXNET
    found = find_spec(package)
    if found is None or not found.origin:  # a folder that an uninstalled package left
        command = f".venv/bin/python -m {program}"
        fix = f"Use .venv/bin/python, which 'make {maker}' creates: {command}"
        line = error_line(sys.executable, expected=f"a Python with {title}", got="none", fix=fix)
        echo(f"error: {line}", err=True)
        raise SystemExit(2)


class SmallShareError(SpecError):
    """A worker has fewer images than a batch; --auto-batch catches this class."""


def unknown(
    what: str, name: object, known: Iterable[str], *, shown: Iterable[str] | None = None
) -> SpecError:
    """Return the error for an unknown name.

    It gives the nearest known name, then those `shown`, or all.
    """
    names = list(known)
    near = difflib.get_close_matches(quoted(name)[1:-1], names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return SpecError(f"unknown {what} {quoted(name)}{hint} Known: {', '.join(shown or names)}")


# tomllib's position, and the parts of a file in which a bracket can be text.
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BRACKET = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|#[^\n]*|[][{}]",
    re.DOTALL,
)
# Columns of a line that an error shows before and after the place.
_BEFORE, _AFTER = 60, 30


def toml_error(path: object, text: str, error: Exception, fix: str = "") -> SpecError:
    """Return the error of a file that tomllib rejects, with its line and a caret."""
    reason, place = brief(error), _POSITION.search(str(error))
    at = len(text.rstrip()) if place else -1
    if place and place[1]:
        starts = [0, *(found.end() for found in re.finditer("\n", text))]
        at = starts[int(place[1]) - 1] + int(place[2]) - 1
    opened = _unclosed(text)
    if opened >= 0 and (opened < at or not place):
        at, reason = opened, f"{text[opened]!r} is never closed"
    if at < 0:
        return SpecError(error_line(path, problem=f"not a TOML file: {reason}", fix=fix))
    first = text.rfind("\n", 0, at) + 1
    start, number = max(first, at - _BEFORE), text.count("\n", 0, at) + 1
    shown = text[start:at] + text[at : at + _AFTER].partition("\n")[0]
    caret = "".join(c if c == "\t" else " " for c in text[start:at]) + "^"
    problem = f"not a TOML file: {_POSITION.sub('', reason)}"
    return TomlError(error_line(f"{path}:{number}", problem=problem, fix=fix), shown, caret)


def _unclosed(text: str) -> int:
    """Return the place of the first bracket that is never closed; -1 without one."""
    opened = list[int]()
    for found in _BRACKET.finditer(text):
        if found[0] in {"[", "{"}:
            opened.append(found.start())
        elif found[0] in {"]", "}"} and opened:
            opened.pop()
    return opened[0] if opened else -1


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
