"""Failures: parts of a report that could not be made; the others stay."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from results.errors import StoreError

Part = TypeVar("Part")
_ROOT = Path(__file__).parent.parent


class Failures:
    """Makes the parts of a report one by one and keeps a line for each that fails."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def attempt(self, part: str, make: Callable[[], Part], otherwise: Part) -> Part:
        """What `make` returns, or `otherwise` if it fails by a bug of ours.

        StoreError and OSError, which are no bugs, pass.
        """
        try:
            return make()
        except (StoreError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever fails must not cost the other parts
            line = f"{part}: {type(error).__name__}: {error}".rstrip(": ")
            self.lines.append(f"{' '.join(line.split())} ({_code_location(error)})")
            return otherwise


def attempt_text(failures: Failures | None, part: str, make: Callable[[], str]) -> str:
    """A part of a text, or a line in its place that says that it failed; without `failures` raises.

    A reader of the text must see that something is missing.
    """
    return "\n".join(attempt_lines(failures, part, lambda: [make()]))


def attempt_lines(failures: Failures | None, part: str, make: Callable[[], list[str]]) -> list[str]:
    """As `attempt_text`, of a list of lines."""
    if failures is None:
        return make()
    before = len(failures.lines)
    lines = failures.attempt(part, make, list[str]())
    return [f"NOT AVAILABLE: {one}." for one in failures.lines[before:]] or lines


def _code_location(error: Exception) -> str:
    """The last line of ours that the error passed: 'plots/summary.py:95'."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_ROOT)]
    own = [one for one in ours if "site-packages" not in one.filename]
    frame = (own or frames)[-1]
    path = Path(frame.filename)
    name = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path.name
    return f"{name}:{frame.lineno}"
