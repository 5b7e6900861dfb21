"""The one exception for what a person has to mend in what they asked for."""


class SpecError(Exception):
    """A mistake in a sweep, an option or a data path; its text is one line for that person."""
