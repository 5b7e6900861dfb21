"""Text of hosts, logs and people as it stands in Markdown: all of it text, none of it markup."""

import re

from im2rec_tools.terminal import one_line, printable

# Brackets alone are text, as in [153, 216]; what follows them makes a link.
_MARK = re.compile(r"[\\`*|$~&]|\](?=[(\[])")
_PLAIN = re.compile(r"[A-Za-z0-9.,:/%()±=-]*(?: [A-Za-z0-9.,:/%()±=-]+)*")
# An underscore within a word, as in dist_sync, is one to Markdown too.
_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
# What begins a heading, quote, list, rule or the target of a link if a line begins with it.
_START = re.compile(r"([0-9]{1,9}(?=[.)](?: |$))|(?=[-#>+=\[]))")
_FENCE = re.compile("~+")


def in_cell(text: str) -> str:
    """The text in one cell of a table."""
    if _PLAIN.fullmatch(text):
        return text
    text = _EDGE.sub(r"\\_", _MARK.sub(r"\\\g<0>", one_line(text)))
    return text.replace("<", "&lt;")  # a backslash before it is no help to what looks for marks


def in_line(text: str) -> str:
    """The text in one line, also at its beginning."""
    line = in_cell(text)
    found = _START.match(line)
    return f"{found[1]}\\{line[found.end() :]}" if found else line


def fenced(lines: list[str], language: str = "") -> str:
    """A block of code, whose fence is longer than any run of its marks within."""
    text = "\n".join(map(printable, lines))
    fence = "~" * max(3, *(len(marks) + 1 for marks in _FENCE.findall(text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"
