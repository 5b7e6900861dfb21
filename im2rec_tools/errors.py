"""DataError, the form of error lines, and quoting in them."""

import traceback
from pathlib import Path

_ROOT = Path(__file__).parent.parent
# Characters of a quoted word; what is longer ends in "...".
MOST_QUOTED = 60
# Characters of another library's error text.
_MOST_BRIEF = 200


def error_line(
    where: object, *, expected: str = "", got: object = "", problem: str = "", fix: str = ""
) -> str:
    """Compose an error: `WHERE: expected EXPECTED, got GOT. FIX`.

    where: the file, option, field or host, never "it"; empty for the rest of a line whose beginning
    the caller adds. problem: a statement for errors that are
    no wrong value (`cannot be read (No such file or directory)`); it follows the expectation.
    got: text as it is to be printed; pass user input through `quoted`. fix: what to do, with the
    command to type last; no final full stop, because lines are copied and joined.
    """
    wanted = f"expected {expected}" if expected else ""
    found = f"got {got}" if str(got) else ""
    facts = ", ".join(filter(None, (wanted, found)))
    what = "; ".join(filter(None, (facts, problem)))
    head = f"{where}: {what}" if str(where) else what
    return f"{head.rstrip('.')}. {fix}" if fix else head


def quoted(value: object) -> str:
    """Quote a word or value of a file or option for an error line; cut long ones."""
    cut = value[:MOST_QUOTED] if isinstance(value, str | bytes) else value
    try:
        text = repr(cut)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a deep nest
        return f"a long {type(value).__name__}"
    if isinstance(value, str | bytes):
        return text + "..." * (len(value) > MOST_QUOTED)
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}..."


def brief(text: object) -> str:
    """Shorten another library's error text to one line of at most 200 characters."""
    line = " ".join(str(text).encode("utf-8", "backslashreplace").decode().split())
    return line if len(line) <= _MOST_BRIEF else f"{line[:_MOST_BRIEF]}..."


def plain(text: str) -> str:
    """Return text for int() or float().

    Raises ValueError for '1_0' and digits outside ASCII.
    """
    if not text.isascii() or "_" in text:
        raise ValueError(f"expected a number in ASCII digits, got {quoted(text)}")
    return text


def code_location(error: BaseException) -> str:
    """Return the last line of mxscale that an error passed: 'plots/summary.py:95'."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(_ROOT)]
    own = [one for one in inside if "site-packages" not in one.filename]
    if not frames:
        return "no traceback"
    frame = (own or frames)[-1]
    path = Path(frame.filename)
    name = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path.name
    return f"{name}:{frame.lineno}"


class DataError(Exception):
    """Bad data or folders; each argument is a line of the error."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The summary, then one line per error."""
        return tuple(map(str, self.args))

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


class DamagedTarError(DataError):
    """A tar file, or a tar file inside another, is damaged or truncated."""
