"""Text of hosts, logs and people as it stands in Markdown."""

_MARKS = str.maketrans({"<": "\\<", "\n": " ", "\r": " "})
_BAR = str.maketrans({"|": "\\|"})


def in_line(text: str) -> str:
    """The text in one line, without HTML of its own."""
    return text.translate(_MARKS)


def in_cell(text: str) -> str:
    """The text in one cell of a table, without HTML of its own."""
    return text.translate(_MARKS | _BAR)
