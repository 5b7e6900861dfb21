"""The exception for run folders that cannot be read or written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.errors import error_line

_FIX = "Check the path, its permissions and the free disk space"


class StoreError(Exception):
    """A run folder that cannot be read or written; its text is one line for the user."""


@contextmanager
def store_errors(path: Path, verb: str) -> Iterator[None]:
    """Raise an OSError of the block as a StoreError: 'PATH: cannot be VERB (reason)'."""
    try:
        yield
    except OSError as error:
        reason = f"cannot be {verb} ({error.strerror or error})"
        raise StoreError(error_line(path, problem=reason, fix=_FIX)) from error
