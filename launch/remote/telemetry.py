"""Counters of an agent's machine, by which interference with a job is detected."""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import math
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launch.remote.processes import Lines, descendants

POWERCAP = Path("/sys/class/powercap")
# As in facts.py, which an agent does not need.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NONE = "no RAPL counters; common on VMs"
_DENIED = "only root can read the RAPL counters (permission denied)"


class Rapl:
    """Energy of processors, and of memory if counted, since the first read."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._folder = folder
        self._zones: list[Path] = []
        self._before: dict[Path, int] = {}
        self._microjoules = 0

    def read(self) -> float | str:
        """Return the joules, or why they are not available."""
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
    """Yield the folders to add up: each package, and the memory.

    Other zones are parts of a package (core, uncore) or contain all of them (psys).
    """
    for zone in sorted(folder.glob("intel-rapl:*")):
        name = _counter_text(zone / "name")
        if name.startswith("package") or name == "dram":
            yield zone


def used(before: Mapping[Path, int], now: Mapping[Path, int], ranges: Mapping[Path, int]) -> int:
    """Return the microjoules between two reads.

    A smaller count means that it wrapped around.
    """
    return sum(
        count - before[zone] + (ranges[zone] if count < before[zone] else 0)
        for zone, count in now.items()
    )


class Power:
    """Energy by the trapezoidal rule, from power that is measured from time to time."""

    def __init__(self) -> None:
        self._at = self._watts = 0.0
        self._joules: float | None = None

    def add(self, at: float, watts: float) -> None:
        """Add the watts at a time; the same time again changes nothing."""
        if self._joules is None:
            self._joules = 0.0
        elif at > self._at:
            self._joules += (at - self._at) * (watts + self._watts) / 2
        self._at, self._watts = at, watts

    def joules(self, now: float) -> float:
        """Return the joules since the first time, with the last power until now."""
        return (self._joules or 0.0) + max(0.0, now - self._at) * self._watts


def watts(lines: Sequence[str]) -> float | None:
    """Return the power of all GPUs, by the lines of `_FIGURES`; None if one has none."""
    found = [figures(line)["power.draw"] for line in lines]
    known = [one for one in found if one is not None]
    return sum(known) if known and len(known) == len(found) else None


def figures(line: str) -> dict[str, float | None]:
    """Return the figures of a line such as '0, 97, 61.2, 55, 1980, 1980', by name.

    None for '[N/A]' (the utilization with MIG), '[Unknown Error]' and for what is missing.
    """
    words = [*line.split(","), *[""] * len(_FIGURES)]
    return dict(zip(_FIGURES, map(_figure, words)))  # noqa: B905 - Python 3.8


def _figure(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _whole(path: Path) -> int:
    return int(_counter_text(path))


def _counter_text(path: Path) -> str:
    """Read a file of the kernel without blocking."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(file, 256).decode("ascii").strip()
    finally:
        os.close(file)


# A query takes 27 ms of CPU time on a host with an H100, so every two seconds 1.3 % of a core: few
# enough for its job, and a measurement of five seconds gets two answers.
_USE_SECONDS = 2.0
_PROGRAMS_SECONDS = 5.0
# Of many GPUs without persistence mode, an answer takes seconds.
_HUNG_SECONDS = 5.0
# An older answer does not show the current power.
_STALE_SECONDS = 3 * _HUNG_SECONDS
_FORMAT = "--format=csv,noheader,nounits"
_FIGURES = (
    *("index", "utilization.gpu", "power.draw"),
    *("temperature.gpu", "clocks.sm", "clocks.max.sm"),
)
# Sensors of a broken GPU report anything.
_MOST_CELSIUS = 200.0


class Gpus:
    """Use, power and programs of the GPUs, by the last answer of nvidia-smi."""

    def __init__(self) -> None:
        self.use = _Query(f"--query-gpu={','.join(_FIGURES)}", _USE_SECONDS)
        self._power = Power()
        self._programs = _Query("--query-compute-apps=pid", _PROGRAMS_SECONDS)

    def beat(self, now: float) -> dict[str, Any]:
        """Return the fields of a heartbeat, by index of a GPU.

        Busy share of time, temperature in °C, SM clock as a share of the maximum; and the time of
        the answer.
        """
        rows = [(line.partition(",")[0].strip(), figures(line)) for line in self.use.lines(now)]
        found: dict[str, Any] = {
            name: {index: one for index, row in rows if (one := of(row)) is not None}
            for name, of in _BEAT.items()
        }
        return {**found, "gpu_at": self.use.at} if rows else found

    def energy(self, now: float) -> float | str:
        """Return the joules of all GPUs since the first answer, or why not available."""
        if not self.use.answer or now - self.use.at > _STALE_SECONDS:
            return self.use.silence
        all_watts = watts(self.use.answer)
        if all_watts is None:
            return "nvidia-smi reports no power for a GPU"
        self._power.add(self.use.at, all_watts)
        return self._power.joules(now)

    def others(self, now: float) -> list[int]:
        """Return the pids of programs on the GPUs that this process has not started.

        In a container the driver may list pids of the machine, which do not exist in it.
        """
        pids = {int(line) for line in self._programs.lines(now) if line.isdigit()}
        if not pids:
            return []
        foreign = pids - {os.getpid(), *descendants(os.getpid())}
        return sorted(pid for pid in foreign if os.path.isdir(f"/proc/{pid}"))  # noqa: PTH112


class _Query:
    """Periodic query of nvidia-smi that never waits for the answer."""

    def __init__(self, what: str, every_seconds: float) -> None:
        self._what, self._every_seconds = what, every_seconds
        self._program = shutil.which("nvidia-smi")
        self.silence = "no answer from nvidia-smi" if self._program else "no nvidia-smi"
        self.query: subprocess.Popen[bytes] | None = None
        self._output: Lines | None = None
        self._asked = -math.inf
        self._read_lines: list[str] = []
        self.answer: list[str] = []
        self.at = 0.0

    def lines(self, now: float) -> list[str]:
        """Return the lines of its last answer."""
        if self.query is not None:
            self._read(now)
        elif self._program is not None and now - self._asked >= self._every_seconds:
            self._ask(now)
        return self.answer

    def _ask(self, now: float) -> None:
        self._asked, self._read_lines = now, []
        try:
            self.query = subprocess.Popen(
                [str(self._program), self._what, _FORMAT],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            self._program = None
            return
        assert self.query.stdout is not None
        self._output = Lines(self.query.stdout.fileno())

    def _read(self, now: float) -> None:
        assert self.query is not None
        assert self.query.stdout is not None
        assert self._output is not None
        lines, closed = self._output.read()
        self._read_lines += lines
        if closed and self.query.poll() is not None:
            self.answer, self.at = self._read_lines, self._asked
            self.query.stdout.close()
            self.query = None
        elif now - self._asked >= _HUNG_SECONDS:  # a driver that hangs is not queried again
            self.query.kill()
            self._program, self.answer, self._read_lines = None, [], []


def _busy(row: Mapping[str, float | None]) -> float | None:
    percent = row["utilization.gpu"]
    return None if percent is None or percent > 100 else percent / 100


def _temperature(row: Mapping[str, float | None]) -> float | None:
    celsius = row["temperature.gpu"]
    return None if celsius is None or celsius > _MOST_CELSIUS else celsius


def _clock(row: Mapping[str, float | None]) -> float | None:
    now, most = row["clocks.sm"], row["clocks.max.sm"]
    return None if now is None or not most else min(1.0, now / most)


# Fields of a heartbeat, by index of a GPU.
_BEAT = {"gpu": _busy, "gpu_temperature": _temperature, "gpu_clock": _clock}


# Clocks are read rarely and for few cores: a kernel may take 10 ms for one.
_SLOW_SECONDS, _MOST_CORES = 5.0, 4
_CPUS = Path("/sys/devices/system/cpu")
_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Counters:
    """Counters of this machine since boot; launch/job/interference.py explains them."""

    def __init__(self) -> None:
        self._slow_at = -math.inf
        self._slow: dict[str, Any] = {}
        self._rapl = Rapl()

    def read(self, now: float, children_seconds: float, cores: set[int]) -> dict[str, Any]:
        """Return the counters now.

        `children_seconds` are the children's processor seconds.
        """
        if now - self._slow_at >= _SLOW_SECONDS:
            self._slow_at = now
            clocks = [
                _number(_CPUS / f"cpu{core}/cpufreq/scaling_cur_freq")
                for core in sorted(cores)[:_MOST_CORES]
            ]
            counts = _CPUS.glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
            self._slow = {
                "machine": _text(_BOOT_ID).strip(),
                "clock": max(clocks, default=0) / 1e6,
                "throttled": sum(map(_number, counts)),
            }
        # The agent's own time, and that of its ended children.
        used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return {
            **self._slow,
            **processors(_text(Path("/proc/stat"))),
            "ours": sum(one.ru_utime + one.ru_stime for one in used) + children_seconds,
            "swapped": swapped(_text(Path("/proc/vmstat"))),
            "network": interface_bytes(_text(Path("/proc/net/dev"))),
            "retransmits": retransmits(_text(Path("/proc/net/snmp"))),
            "energy": {"rapl": self._rapl.read()},
        }


def processors(stat: str) -> dict[str, float]:
    """Return the number of processors, busy and stolen seconds: /proc/stat, proc(5)."""
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    total = [int(word) for word in lines[0][1:9]] if lines else [0] * 8
    user, nice, system, _, _, irq, softirq, stolen = total
    busy = user + nice + system + irq + softirq
    return {"cores": max(0, len(lines) - 1), "busy": busy / _TICKS, "stolen": stolen / _TICKS}


def swapped(vmstat: str) -> int:
    """Return the bytes to and from swap: /proc/vmstat."""
    words = [line.split() for line in vmstat.splitlines() if line.startswith("pswp")]
    return sum(int(count) for _, count in words) * _PAGE_BYTES


_MOST_INTERFACES = 100


def interface_bytes(dev: str) -> dict[str, list[int]]:
    """Return the bytes in and out of each network interface: /proc/net/dev, proc(5).

    Only of the busiest, if a machine has very many.
    """
    found = {}
    for line in dev.splitlines()[2:]:
        name, _, fields = line.rpartition(":")
        words = fields.split()
        if len(words) > _BYTES_OUT:
            found[name.strip()] = [int(words[0]), int(words[_BYTES_OUT])]
    busiest = sorted(found, key=lambda name: -sum(found[name]))[:_MOST_INTERFACES]
    return {name: found[name] for name in busiest}


_BYTES_OUT = 8


def retransmits(snmp: str) -> int:
    """Return the TCP segments sent again: /proc/net/snmp."""
    lines = [line.split() for line in snmp.splitlines() if line.startswith("Tcp:")]
    counts = dict(zip(*lines)) if len(lines) == 2 else {}  # noqa: B905 - Python 3.8
    return int(counts.get("RetransSegs", 0))


_CGROUP = Path("/sys/fs/cgroup")


def oom_kills(vmstat: Path = Path("/proc/vmstat"), cgroup: Path = _CGROUP) -> int | None:
    """Return how many processes the kernel has killed for lack of memory.

    Adds those of the machine and of a container (cgroup v2); None if neither is counted.
    """
    texts = _text(vmstat), _text(cgroup / "memory.events")
    lines = [line.split() for text in texts for line in text.splitlines()]
    found = [int(words[1]) for words in lines if words[0] == "oom_kill"]
    return sum(found) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _number(path: Path) -> int:
    """Read a number from a file of the kernel; 0 if not available."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else 0
