"""A Slurm allocation, as its environment variables tell it."""

import math
import re
from collections.abc import Mapping
from itertools import product

from bench.errors import is_whole, quoted
from launch.errors import LaunchError

# More nodes than any allocation has; a list that says more is a mistake.
MOST_NODES = 10_000

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def nodelist(text: str, where: str = "$SLURM_JOB_NODELIST") -> tuple[str, ...]:
    """The names in 'tux[1-3,07],login': zeros are kept, several brackets multiply.

    Raises LaunchError.
    """
    names: list[str] = []
    for group in re.split(r",(?![^\[\]]*\])", text):
        parts = re.split(r"\[([^\[\]]*)\]", group)
        choices = [_numbers(part, where) if at % 2 else [part] for at, part in enumerate(parts)]
        if len(names) + math.prod(map(len, choices)) > MOST_NODES:
            raise LaunchError(f"{where}: expected {MOST_NODES} hosts at most, got {quoted(group)}")
        names += map("".join, product(*choices))
    for name in names:
        if not _NAME.fullmatch(name):
            raise LaunchError(
                f"{where}: expected names as 'tux[1-3,07],login', got {quoted(name)} in it"
            )
    return tuple(names)


def _numbers(text: str, where: str) -> list[str]:
    """The numbers of '1-3,07', each as wide as the first of its range."""
    numbers: list[str] = []
    for span in text.split(","):
        low, dash, high = span.partition("-")
        high = high if dash else low
        if not (is_whole(low) and is_whole(high) and 0 <= int(high) - int(low) < MOST_NODES):
            raise LaunchError(
                f"{where}: expected numbers as '1-3,07' between brackets, got {quoted(span)}"
            )
        numbers += [f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1)]
    return numbers


def gpus_per_node(environ: Mapping[str, str], nodes: int) -> int | None:
    """How many GPUs each of the nodes gives to the job, if Slurm says so in plain numbers."""
    # SLURM_GPUS_ON_NODE counts this node's, and GPUs asked for in total or per task need not be
    # shared out evenly. SLURM_JOB_GPUS is no count: it lists the GPUs' numbers.
    shared_out = not environ.keys().isdisjoint({"SLURM_GPUS", "SLURM_GPUS_PER_TASK"})
    here = "" if shared_out and nodes > 1 else environ.get("SLURM_GPUS_ON_NODE", "")
    said = (environ.get("SLURM_GPUS_PER_NODE", ""), here)
    return next((int(text) for text in said if is_whole(text) and int(text) > 0), None)
