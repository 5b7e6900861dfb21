"""What the processes of a job use of their cores and GPUs, and who does nothing meanwhile. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Agents beat once a second: a history of so many beats is longer than the ten seconds it is for.
BEATS = 12
_SECONDS = 10.0
_IDLE_BELOW, _BUSY_ABOVE = 0.05, 0.5


@dataclass(frozen=True, kw_only=True)
class Use:
    """What a process had used at one beat of its agent.

    at is a time of its host's clock, cpu_seconds is since it started, gpus the share of time that
    each of its GPUs was busy.
    """

    at: float
    cpu_seconds: float
    gpus: tuple[float, ...] = ()


def cpu_share(uses: Sequence[Use], cores: int) -> float | None:
    """Share of so many cores that was used from the first beat to the last; None for under two."""
    if len(uses) < 2 or uses[-1].at <= uses[0].at:
        return None
    used = uses[-1].cpu_seconds - uses[0].cpu_seconds
    return used / (uses[-1].at - uses[0].at) / max(1, cores)


def gpu_shares(uses: Sequence[Use]) -> tuple[float, ...]:
    """The mean of each GPU over the beats that know it; empty where the last one does not."""
    count = len(uses[-1].gpus) if uses else 0
    known = [use.gpus for use in uses if len(use.gpus) == count]
    return tuple(sum(gpus[n] for gpus in known) / len(known) for n in range(count))


def device_shares(who: str, uses: Sequence[Use], cores: int) -> dict[str, float]:
    """How busy each device of a worker was, by its name in words; empty before ten seconds."""
    if not uses or uses[-1].at - uses[0].at < _SECONDS:
        return {}
    gpus = gpu_shares(uses)
    if gpus:
        return {f"GPU {n} of {who}": share for n, share in enumerate(gpus)}
    return {who: cpu_share(uses, cores) or 0.0}


def idle(shares: Mapping[str, float]) -> list[str]:
    """The names of those that do next to nothing while more than half of all work.

    In a synchronous job all wait for the slowest, so that most are idle while it works: the odd
    one out is then the one that works.
    """
    working = sum(share > _BUSY_ABOVE for share in shares.values())
    if 2 * working <= len(shares):
        return []
    return [name for name, share in shares.items() if share < _IDLE_BELOW]
