"""Losses and widths of published scaling tables: the constants of a prediction.

The logarithm of the time per image and device grows by loss * (sqrt(log2 n) - sqrt(log2 known))
from the last known point. Around it lie two halves of a Student's t with 3 degrees of freedom,
each with its own width, times doublings ** power.
"""

import math
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from bench.statistics.confidence import student

FILE = Path(__file__).with_name("population.toml")
FREEDOM = 3
LEVELS = (0.80, 0.95)


class Kind(StrEnum):
    """What is known of a job, which decides how far its prediction may be off."""

    LIGHT = "light"  # one host measured; exchanging gradients is short beside computing
    HEAVY = "heavy"  # one host measured; exchanging is long, or unknown
    MULTI = "multi"  # two hosts or more measured


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Constants of one kind.

    loss   growth of the logarithm of the time per unit of sqrt(log2 devices)
    down   width of the side on which the job is faster than predicted, at one doubling
    up     width of the side on which it is slower
    power  growth of both widths with the number of doublings

    cells, tables  published cells, and their tables, that were predicted without their source
    close          share of them within 5 %
    """

    loss: float
    down: float
    up: float
    power: float
    cells: int = 0
    tables: int = 0
    close: float = 0.0

    def growth(self, known: int, devices: int) -> float:
        """Return the growth of the logarithm of the time per image and device."""
        return self.loss * (math.sqrt(math.log2(devices)) - math.sqrt(math.log2(known)))

    def reach(self, known: int, devices: int, level: float) -> tuple[float, float]:
        """Return how far the logarithm of the time may lie below and above the prediction."""
        scale = student(FREEDOM, level) * math.log2(devices / known) ** self.power
        return self.down * scale, self.up * scale

    def width(self, known: int, devices: int, level: float = LEVELS[1]) -> float:
        """Return the width of the prediction interval, high / low - 1."""
        return math.expm1(sum(self.reach(known, devices, level)))


@dataclass(frozen=True, kw_only=True)
class Population:
    """The constants of all kinds, with their origin; see population.toml.

    load        largest load of a light job
    bandwidth   bytes/s beyond which published tables show no gain from a faster link
    parameters  millions of trained parameters by network, with 1000 classes
    """

    date: str
    data: str
    load: float
    bandwidth: float
    kinds: dict[Kind, Constants]
    parameters: dict[str, float]


@cache
def population() -> Population:
    """Load the constants."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), Population)


def load_of(bytes_each_way: float, step_seconds: float, link: float, most: float) -> float:
    """Return the load: seconds to push and pull gradients, per second of computing.

    link  bytes/s of the link; infinite if unknown
    most  bytes/s that no link exceeds
    """
    return 2 * bytes_each_way / min(link, most) / step_seconds
