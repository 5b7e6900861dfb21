"""What a piece of work says while it runs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """`done` of `total` images of a step; `fraction` says how far it is without a total."""

    step: str
    done: int
    total: int = 0
    bad: int = 0
    fraction: float | None = None


# Progress as often as there is some; a line where there is something to say.
Update = Progress | str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Work that is checked and described, not begun.

    `says` is what a dry run prints; `moves` how many images or classes it would move.
    """

    says: Iterable[str]
    work: Callable[[], Iterator[Update]]
    moves: int = 0
