"""The one exception for a run folder that cannot be used."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StoreError(Exception):
    """A run folder cannot be read or written; the text is one line for a person."""


@contextmanager
def store_errors(path: Path, verb: str) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError: 'PATH: cannot be read (why)'."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: cannot be {verb} ({error.strerror or error})") from error
