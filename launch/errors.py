"""The one exception for a machine or cluster that cannot run what was asked."""


class LaunchError(Exception):
    """Nothing was started or everything has been ended; the text is one line for a person."""
