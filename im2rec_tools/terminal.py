"""Terminal output: control characters of foreign text never reach the terminal.

`echo` prints lines, `console.Screen` tables and bars. A `Filter` on standard output and error
covers all other output: tracebacks, warnings, usage.
"""

import contextlib
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TextIO

from im2rec_tools.errors import brief, code_location, error_line

_SAFE = re.compile(r"[ -~\t]*")
_LONG_WORD, _MOST_LETTERS = re.compile(r"\S{400,}"), 4000
_SAFE_LINES = re.compile(r"[ -~\t\n]*")


def printable(text: object) -> str:
    """Return the text as one line: control characters, also Unicode's, become spaces.

    Tabs stay.
    """
    text = str(text)
    if text.isprintable() or _SAFE.fullmatch(text):
        return text
    return "".join(c if c.isprintable() or c == "\t" else " " for c in text)


def one_line(text: object) -> str:
    """Return the text as printable words with single spaces, for any encoding."""
    return " ".join(printable(text).split())


def echo(*lines: object, err: bool = False) -> None:
    """Print lines to standard output or error; each stays one line."""
    print("".join(f"{printable(line)}\n" for line in lines), end="", file=_stream(err), flush=True)


def shorten(text: str) -> str:
    """Return a line of an error; very long words and lines are cut."""
    text = _LONG_WORD.sub(lambda found: f"{found[0][:200]}...{found[0][-60:]}", text)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def error_lines(error: Exception) -> str:
    """Return an error's text in one line, or its `lines`, indented after the first."""
    return "\n  ".join(shorten(printable(line)) for line in getattr(error, "lines", [error]))


def echo_error(error: Exception) -> None:
    """Print an error to standard error."""
    echo(*f"error: {error_lines(error)}".split("\n"), err=True)


def unexpected(error: BaseException, mask: Callable[[str], str] = str) -> str:
    """Return the line for an error that nothing handles; its traceback goes to a file.

    `mask` hides secrets. The file is in the folder for temporary files, for its owner only.
    """
    what = brief(printable(f"{type(error).__name__}: {error}")).rstrip(": ")
    try:
        descriptor, path = tempfile.mkstemp(prefix="mxscale-", suffix=".traceback")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(mask("".join(traceback.format_exception(error))))
        fix = f"Report it with the traceback in {path}"
    except OSError:
        fix = "Set TMPDIR to a folder for its traceback, and run the same command again"
    return mask(
        error_line("mxscale", problem=f"unexpected {what} ({code_location(error)})", fix=fix)
    )


def _except_hook(
    _: type[BaseException], error: BaseException, __: TracebackType | None = None
) -> None:
    """Print what nothing has caught as one line."""
    line = "interrupted" if isinstance(error, KeyboardInterrupt) else f"error: {unexpected(error)}"
    echo(line, err=True)


class Filter:
    """Text stream that writes control characters, except line ends, as spaces."""

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
    """Filter all further output of this program; print unexpected errors as one line."""
    sys.excepthook = _except_hook
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, Filter):
            continue
        with contextlib.suppress(AttributeError):  # a stream of a test has no encoding
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Filter(stream))


def unfiltered(err: bool) -> TextIO:
    """Return stdout or stderr unfiltered, for code with its own escape sequences."""
    stream = _stream(err)
    stream = getattr(stream, "rich_proxied_file", stream)  # while a live display redirects it
    return stream.stream if isinstance(stream, Filter) else stream


def _stream(err: bool) -> TextIO:
    return sys.stderr if err else sys.stdout
