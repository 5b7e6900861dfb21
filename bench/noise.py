"""How the windows of a rehearsal scatter. Standard library only, as the processes that play it."""

import math
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Relative standard deviations: of a window within its process, and between processes.

    A window keeps the share `correlation` of the deviation of the one before it: AR(1).
    """

    within: float = 0.0
    correlation: float = 0.0
    between: float = 0.0


def factors(noise: Noise, seed: str, count: int) -> list[float]:
    """What to multiply each window of one process with; the same for the same seed."""
    random = Random(seed)
    process = random.gauss(0.0, noise.between)
    deviation = random.gauss(0.0, noise.within)
    fresh = noise.within * math.sqrt(1 - noise.correlation**2)
    found = []
    for _ in range(count):
        found.append(math.exp(process + deviation))
        deviation = noise.correlation * deviation + random.gauss(0.0, fresh)
    return found


def shared_factors(noise: Noise, seed: str, count: int, ranks: int) -> list[float]:
    """Of a synchronous job: each window lasts as long as that of its slowest rank."""
    each = [factors(noise, f"{seed} {rank}", count) for rank in range(ranks)]
    return [max(one) for one in zip(*each, strict=True)]
