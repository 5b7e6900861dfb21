"""Exceptions for machines that cannot run a job, and the form of errors."""


# A copy of im2rec_tools.errors.error_line: hosts receive this package alone. A test compares them.
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


class LaunchError(Exception):
    """Nothing was started, or everything was ended; the text is one line for the user."""


class PreflightError(LaunchError):
    """A check found hosts unfit for the job; nothing was started."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The summary, then a line for each host that is wrong."""
        return tuple(map(str, self.args))

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


class ProtocolError(LaunchError):
    """The other end of a connection sent an invalid message; it is not read again."""


class StoppedError(LaunchError):
    """The user stopped the job on the hosts."""
