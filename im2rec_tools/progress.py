"""Progress updates of data commands, their plans, and estimates of the time left."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a step: images done, in total (0: unknown), and bad.

    fraction: progress from 0 to 1 if the total is unknown.
    unit: of done and total; only images can be bad.
    """

    step: str
    done: int
    total: int = 0
    bad: int = 0
    fraction: float | None = None
    unit: str = "images"


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


def job_seconds_left(done: int, total: int, seconds: float, since: float = 0.0) -> float | None:
    """Estimate the seconds to the last window or epoch; None before the first is done.

    `done` of `total` took `seconds`; another `since` seconds have passed.
    """
    if done <= 0 or total <= 0:
        return None
    return max(0.0, seconds * (total - done) / done - since)


def time_left(seconds: float) -> str:
    """Format a rounded duration: '20 s', '3 min', '1 h 20 min', '2 d 3 h'."""
    if seconds < 60:
        return f"{max(1, round(seconds)) if seconds < 10 else 5 * round(seconds / 5)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
