"""Printing: control characters of foreign text never reach the terminal.

Lines are printed by `echo`, tables and bars by `console.Screen`; a program puts a `Filter` before
its standard output and error for all that is printed otherwise: tracebacks, warnings, usage.
"""

import contextlib
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

_SAFE = re.compile(r"[ -~\t]*")
_LONG_WORD, _MOST_LETTERS = re.compile(r"\S{400,}"), 4000
_SAFE_LINES = re.compile(r"[ -~\t\n]*")


def printable(text: object) -> str:
    """The text as one line: control characters, also of Unicode, are blanks; tabs stay."""
    text = str(text)
    if _SAFE.fullmatch(text):
        return text
    return "".join(c if c.isprintable() or c == "\t" else " " for c in text)


def one_line(text: object) -> str:
    """The text as a table and any encoding can hold it: printable, single blanks between words."""
    return " ".join(printable(text).split())


def echo(*lines: object, err: bool = False) -> None:
    """Print lines to standard output, or to standard error; none of them can become two."""
    print("".join(f"{printable(line)}\n" for line in lines), end="", file=_stream(err), flush=True)


def shorten(text: str) -> str:
    """A line of an error, of which a word or a line of thousands of letters is cut."""
    text = _LONG_WORD.sub(lambda found: f"{found[0][:200]}...{found[0][-60:]}", text)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def error_lines(error: Exception) -> str:
    """What an error says, in one line, or in its `lines` if it has several, the rest indented."""
    return "\n  ".join(shorten(printable(line)) for line in getattr(error, "lines", [error]))


def echo_error(error: Exception) -> None:
    """Print an error to standard error."""
    echo(*f"error: {error_lines(error)}".split("\n"), err=True)


class Filter:
    """A text stream that writes control characters, other than ends of lines, as blanks."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text; returns its length as given."""
        safe = _SAFE_LINES.fullmatch(text)
        self.stream.write(text if safe else "\n".join(map(printable, text.split("\n"))))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def install_filter() -> None:
    """Filter what this program prints from now on."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, Filter):
            continue
        with contextlib.suppress(AttributeError):  # a stream of a test has no encoding
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Filter(stream))


def unfiltered(err: bool) -> TextIO:
    """Standard output or error without the filter, for what composes escape sequences itself."""
    stream = _stream(err)
    stream = getattr(stream, "rich_proxied_file", stream)  # while a live display redirects it
    return stream.stream if isinstance(stream, Filter) else stream


def _stream(err: bool) -> TextIO:
    return sys.stderr if err else sys.stdout
