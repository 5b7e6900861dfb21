"""The exceptions for a machine or cluster that cannot run what was asked."""


class LaunchError(Exception):
    """Nothing was started or everything has been ended; the text is one line for a person."""


class PreflightError(LaunchError):
    """Hosts were looked at and are not fit for the job; nothing was started."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The first says what is wrong, each of the others where."""
        return tuple(map(str, self.args))

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


class ProtocolError(LaunchError):
    """The other end of a line sent what no message is; nothing more is read from it."""


class StoppedError(LaunchError):
    """A person has ended what runs on the hosts."""
