"""Joules that this machine has used, by the counters of its processors and its GPUs' power.

Standard library only and Python 3.8 or newer, as the agent that it is sent with.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
_NONE = "no RAPL there, as on virtual machines"
_DENIED = "RAPL may be read by root alone there (permission denied)"


class Rapl:
    """Joules of the processors and, where it has a counter, of the memory since the first look."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._folder = folder
        self._zones: list[Path] = []
        self._before: dict[Path, int] = {}
        self._microjoules = 0

    def look(self) -> float | str:
        """The joules, or why they are not known."""
        try:
            self._zones = self._zones or list(zones(self._folder))
            now = {zone: _whole(zone / "energy_uj") for zone in self._zones}
            if self._before:
                ranges = {zone: _whole(zone / "max_energy_range_uj") for zone in self._zones}
                self._microjoules += used(self._before, now, ranges)
        except PermissionError:
            return _DENIED
        except (OSError, ValueError) as error:
            return f"RAPL cannot be read: {error}"
        self._before = now
        return self._microjoules / 1e6 if now else _NONE


def zones(folder: Path) -> Iterator[Path]:
    """The folders of what is to be added up: each package, and memory, which no package holds.

    What else there is, is part of a package (core, uncore) or holds them all (psys).
    """
    for zone in sorted(folder.glob("intel-rapl:*")):
        name = _text(zone / "name")
        if name.startswith("package") or name == "dram":
            yield zone


def used(before: Mapping[Path, int], now: Mapping[Path, int], ranges: Mapping[Path, int]) -> int:
    """Microjoules between two looks; a counter that fell has passed its range and begun again."""
    return sum(
        count - before[zone] + (ranges[zone] if count < before[zone] else 0)
        for zone, count in now.items()
    )


class Power:
    """Joules of something whose watts are told now and then: trapezia between what was told."""

    def __init__(self) -> None:
        self._at = self._watts = 0.0
        self._joules: float | None = None

    def tell(self, at: float, watts: float) -> None:
        """Takes the watts of a time; the same time again changes nothing."""
        if self._joules is None:
            self._joules = 0.0
        elif at > self._at:
            self._joules += (at - self._at) * (watts + self._watts) / 2
        self._at, self._watts = at, watts

    def joules(self, now: float) -> float:
        """Since the first time told, as if the last watts told held until now."""
        return (self._joules or 0.0) + max(0.0, now - self._at) * self._watts


def watts(lines: Sequence[str]) -> float | None:
    """Of all GPUs, by lines of index, utilization.gpu and power.draw; None where one tells none."""
    try:
        return sum(float(line.split(",")[2]) for line in lines) if lines else None
    except (IndexError, ValueError):
        return None


def _whole(path: Path) -> int:
    return int(_text(path))


def _text(path: Path) -> str:
    """What a file of the kernel holds; never waits for someone to write it."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(file, 256).decode("ascii").strip()
    finally:
        os.close(file)
