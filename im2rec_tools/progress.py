"""Progress updates of data commands, and their plans."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a step: images done, in total (0: unknown), and bad.

    fraction: progress from 0 to 1 if the total is unknown.
    """

    step: str
    done: int
    total: int = 0
    bad: int = 0
    fraction: float | None = None


# A line is printed as a result.
Update = Progress | str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Work that is checked and described, but not started.

    `says`   lines that a dry run prints
    `work`   does the work; yields updates
    `moves`  number of images or classes to move
    """

    says: Iterable[str]
    work: Callable[[], Iterator[Update]]
    moves: int = 0
