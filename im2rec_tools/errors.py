"""Mistakes in data and options: the exception, and values as error lines quote them."""

# Characters of a quoted word; what is longer ends in "...".
MOST_QUOTED = 60
# Characters of a text that another library composed, such as a parser's error.
_MOST_SAID = 200


def quoted(value: object) -> str:
    """A word or value of a file or option as an error line shows it, cut where it is long."""
    cut = value[:MOST_QUOTED] if isinstance(value, str | bytes) else value
    try:
        text = repr(cut)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a deep nest
        return f"a long {type(value).__name__}"
    if isinstance(value, str | bytes):
        return text + "..." * (len(value) > MOST_QUOTED)
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}..."


def brief(text: object) -> str:
    """What another library says of a file, in one line, cut where it is long."""
    line = " ".join(str(text).encode("utf-8", "backslashreplace").decode().split())
    return line if len(line) <= _MOST_SAID else f"{line[:_MOST_SAID]}..."


def plain(text: str) -> str:
    """The text for int or float, which also take '1_0' and digits of other scripts: ValueError."""
    if not text.isascii() or "_" in text:
        raise ValueError(f"expected a number in ASCII digits, got {quoted(text)}")
    return text


class DataError(Exception):
    """Something is wrong with the data or the folders given; a line, or several arguments."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The first says what is wrong, each of the others where."""
        return tuple(map(str, self.args))

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


class DamagedTarError(DataError):
    """A tar, or a tar in a tar, is damaged or cut off."""
