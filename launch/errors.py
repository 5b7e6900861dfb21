"""The exceptions for a machine or cluster that cannot run what was asked."""


class LaunchError(Exception):
    """Nothing was started or everything has been ended; the text is one line for a person."""


class PreflightError(LaunchError):
    """Hosts were looked at and are not fit for the job; nothing was started."""


class StoppedError(LaunchError):
    """A person has ended what runs on the hosts."""
