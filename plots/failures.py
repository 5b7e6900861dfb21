"""Failed parts of a report; the other parts are still built."""

from collections.abc import Callable
from typing import TypeVar

from im2rec_tools.errors import code_location
from plots.items import Item
from results.errors import StoreError

Part = TypeVar("Part")


class Failures:
    """Builds the parts of a report one by one and keeps a line for each failure."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def attempt(self, part: str, make: Callable[[], Part], otherwise: Part) -> Part:
        """Return what `make` returns, or `otherwise` if it fails.

        StoreError is raised, because it concerns every part: the run folder cannot be read or
        written.
        """
        try:
            return make()
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one failure must not cost the other parts
            line = f"{part}: {type(error).__name__}: {error}".rstrip(": ")
            self.lines.append(f"{' '.join(line.split())} ({code_location(error)})")
            return otherwise


def attempt_text(failures: Failures | None, part: str, make: Callable[[], str]) -> str:
    """Return a part of a text, or a line that reports its failure.

    Raise without `failures`.

    Readers of the text must see that something is missing.
    """
    return "\n".join(attempt_lines(failures, part, lambda: [make()]))


def attempt_lines(failures: Failures | None, part: str, make: Callable[[], list[str]]) -> list[str]:
    """Return a list of lines, as `attempt_text` does for a text."""
    if failures is None:
        return make()
    before = len(failures.lines)
    lines = failures.attempt(part, make, list[str]())
    return [f"NOT AVAILABLE: {one}." for one in failures.lines[before:]] or lines


def attempt_items(
    failures: Failures | None, part: str, make: Callable[[], list[Item]]
) -> list[Item]:
    """Return a list of items, as `attempt_text` does for a text."""
    if failures is None:
        return make()
    before = len(failures.lines)
    items = failures.attempt(part, make, list[Item]())
    return [Item(f"NOT AVAILABLE: {one}.") for one in failures.lines[before:]] or items
