"""The one exception for a run folder that cannot be used."""


class StoreError(Exception):
    """A run folder cannot be read or written; the text is one line for a person."""
