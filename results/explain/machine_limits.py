"""Limits of a machine for a sweep, by short measurements (`bench.doctor`)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import mean, median, stdev
from typing import Any

from bench.statistics.confidence import error_of_mean
from bench.trial import Trial
from results.explain.verdict import LEAST_SHARE
from results.scaling import ScalingRow, mb_per_second

WINDOWS = 10
# A worker that moves more than this share of a raw TCP connection is limited by the link.
_LINK_SHARE = 0.75
# Of the memory that is free, the share that a sweep may use.
_USABLE_MEMORY = 0.85


class Limit(StrEnum):
    """A part of the machine that can limit a sweep."""

    CORES = "cores"
    INPUT = "input"
    LINK = "link"
    SERVER = "server"
    MEMORY = "memory"
    NOISE = "noise"


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """The largest use of one host by a network's points in a sweep.

    trial         the point with the most devices on a host
    name          the network's, with its data type
    batch         images per step and device
    devices       devices on one host
    workers, servers  processes on one host
    distributed   whether a point has servers
    """

    trial: Trial
    name: str
    batch: int
    devices: int
    workers: int
    servers: int
    distributed: bool


@dataclass(frozen=True, kw_only=True)
class NetworkFigures:
    """Measured figures of one network; None if not measured.

    images_per_second  of one device alone
    exchange_seconds   duration of pushing and pulling all arrays once, s
    mb_per_second      of a worker in each direction, in that time
    memory             peak resident memory of a worker that trains, bytes
    idle_memory        of a worker that only pushes and pulls, bytes
    """

    use: Layouts
    images_per_second: float | None = None
    exchange_seconds: float | None = None
    mb_per_second: float | None = None
    memory: int | None = None
    idle_memory: int | None = None

    @property
    def step_seconds(self) -> float | None:
        """Duration of computing a step on one device, s."""
        return self.use.batch / self.images_per_second if self.images_per_second else None

    @property
    def exchange_share(self) -> float | None:
        """Largest share of a step that the exchange can take: nothing of it overlaps."""
        if self.step_seconds is None or self.exchange_seconds is None:
            return None
        return self.exchange_seconds / (self.exchange_seconds + self.step_seconds)


@dataclass(frozen=True, kw_only=True)
class MachineFigures:
    """Measured figures of a machine; None if not measured.

    cores          number of cores
    clock          of the fastest core, GHz
    free_memory    bytes
    noise_windows, scatter  windows of the noise loop, and their relative standard deviation
    half_width     expected relative 95 % CI half-width of a point of ten windows
    input_threads, input_images_per_second  the fastest number of decoding threads
    raw_mb_per_second  of one raw TCP connection
    """

    cores: int
    free_memory: int
    clock: float | None = None
    noise_windows: int = 0
    scatter: float | None = None
    half_width: float | None = None
    input_threads: int = 0
    input_images_per_second: float | None = None
    raw_mb_per_second: float | None = None


@dataclass(frozen=True, kw_only=True)
class MachineLimit:
    """A limit, the network that it concerns ('' for all), and its figures."""

    limit: Limit
    network: str = ""
    figures: Mapping[str, float]


def expected_half_width(seconds: Sequence[float]) -> float | None:
    """Return the median relative half-width of ten windows; None with fewer."""
    found = []
    for start in range(0, len(seconds) - WINDOWS + 1, WINDOWS):
        block = seconds[start : start + WINDOWS]
        error = error_of_mean(block)
        if error is not None:
            found.append(error.half_width / mean(block))
    return median(found) if found else None


def layouts(trials: Sequence[Trial]) -> list[Layouts]:
    """Return each network's largest use of a host, without points that train nothing."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        if trial.mode in {"synthetic", "real"}:
            groups.setdefault((trial.network_name, trial.training.dtype), []).append(trial)
    return [_layout(name, dtype, alike) for (name, dtype), alike in groups.items()]


def _layout(name: str, dtype: str, alike: Sequence[Trial]) -> Layouts:
    most = max(alike, key=lambda one: min(one.layout.devices, one.layout.devices_per_host))
    devices = min(most.layout.devices, most.layout.devices_per_host)
    return Layouts(
        trial=most,
        name=name if dtype == "float32" else f"{name} {dtype}",
        batch=max(one.device_batch for one in alike),
        devices=devices,
        workers=max(min(one.workers, _per_host(one.workers, one)) for one in alike),
        servers=max(_per_host(one.servers, one) for one in alike),
        distributed=any(one.servers for one in alike),
    )


def _per_host(processes: int, trial: Trial) -> int:
    return math.ceil(processes / max(1, trial.worker_hosts))


def network_figures(
    use: Layouts, training: ScalingRow | None, exchange: ScalingRow | None
) -> NetworkFigures:
    """Return a network's figures by its point on one device and its bandwidth point."""
    rate = training.rate if training else None
    moved = exchange.rate if exchange else None
    repeat = exchange.repeats[0] if exchange and exchange.repeats else None
    seconds = None
    if exchange and moved and repeat and repeat.windows:
        steps = exchange.trial.measuring.steps_per_window
        seconds = repeat.windows[-1][1] / steps / moved.images_per_second
    return NetworkFigures(
        use=use,
        images_per_second=rate.images_per_second if rate else None,
        exchange_seconds=seconds,
        mb_per_second=mb_per_second(exchange.trial, moved) if exchange and moved else None,
        memory=training.peak_memory_bytes if training and rate else None,
        idle_memory=exchange.peak_memory_bytes if exchange and moved else None,
    )


def findings(
    networks: Sequence[NetworkFigures], machine: MachineFigures, precision: float
) -> list[MachineLimit]:
    """Return what will limit a sweep that wants this half-width (`precision`)."""
    found = []
    for one in networks:
        found += _of_cores(one, machine)
    for one in networks:
        found += _of_input(one, machine)
    for one in networks:
        found += _of_exchange(one, machine)
    for one in networks:
        found += _of_memory(one, machine)
    width = machine.half_width
    if width is not None and precision and width > precision:
        windows = math.ceil(WINDOWS * (width / precision) ** 2)
        figures = {"half_width": width, "precision": precision, "windows": windows}
        found.append(MachineLimit(limit=Limit.NOISE, figures=figures))
    return found


def _of_cores(one: NetworkFigures, machine: MachineFigures) -> list[MachineLimit]:
    processes = one.use.workers + one.use.servers
    busy = one.use.devices if one.use.servers == 0 else processes
    if busy <= machine.cores:
        return []
    figures = {"workers": one.use.workers, "servers": one.use.servers, "cores": machine.cores}
    return [MachineLimit(limit=Limit.CORES, network=one.use.name, figures=figures)]


def _of_input(one: NetworkFigures, machine: MachineFigures) -> list[MachineLimit]:
    available = machine.input_images_per_second
    if available is None or one.images_per_second is None:
        return []
    wanted = one.images_per_second * one.use.devices
    if wanted <= available:
        return []
    devices = int(available / one.images_per_second)
    figures = {"wanted": wanted, "available": available, "devices": devices}
    return [MachineLimit(limit=Limit.INPUT, network=one.use.name, figures=figures)]


def _of_exchange(one: NetworkFigures, machine: MachineFigures) -> list[MachineLimit]:
    share, raw = one.exchange_share, machine.raw_mb_per_second
    if share is None or not one.use.distributed or share < LEAST_SHARE:
        return []
    moved = one.mb_per_second
    on_link = raw is not None and moved is not None and moved > _LINK_SHARE * raw
    figures = {
        "share": share,
        "exchange_seconds": one.exchange_seconds or 0.0,
        "step_seconds": one.step_seconds or 0.0,
    }
    limit = Limit.LINK if on_link else Limit.SERVER
    return [MachineLimit(limit=limit, network=one.use.name, figures=figures)]


def _of_memory(one: NetworkFigures, machine: MachineFigures) -> list[MachineLimit]:
    if one.memory is None:
        return []
    wanted = one.use.workers * one.memory + one.use.servers * (one.idle_memory or 0)
    if wanted <= _USABLE_MEMORY * machine.free_memory:
        return []
    figures = {"wanted": wanted, "available": machine.free_memory}
    return [MachineLimit(limit=Limit.MEMORY, network=one.use.name, figures=figures)]


def largest_batch(one: NetworkFigures, machine: MachineFigures) -> int | None:
    """Return the batch per device that fits the free memory, extrapolated.

    A worker's memory is that of its arrays, measured without training, and an equal part per image
    for each of its devices. None if it is not measured.
    """
    if one.memory is None or one.idle_memory is None or one.memory <= one.idle_memory:
        return None
    free = _USABLE_MEMORY * machine.free_memory - one.use.servers * one.idle_memory
    per_image = (one.memory - one.idle_memory) / one.use.batch
    images = (free / one.use.workers - one.idle_memory) / per_image
    return max(0, int(images / one.use.trial.layout.devices_per_worker))


def machine_figures(
    rows: Sequence[ScalingRow], facts: Mapping[str, Any], noise: Sequence[float], raw: float
) -> MachineFigures:
    """Return the figures by a host's facts, the noise loop and the parts' rows."""
    reading = next((row for row in rows if row.trial.mode == "test-io" and row.rate), None)
    cores = facts.get("cores")
    return MachineFigures(
        cores=len(cores) if isinstance(cores, list) else 0,
        clock=_clock(rows),
        free_memory=int(facts.get("available_mib") or 0) << 20,
        noise_windows=len(noise),
        scatter=stdev(noise) / mean(noise) if len(noise) > 1 else None,
        half_width=expected_half_width(noise),
        input_threads=reading.trial.data.nthreads if reading else 0,
        input_images_per_second=reading.rate.images_per_second
        if reading and reading.rate
        else None,
        raw_mb_per_second=raw,
    )


def _clock(rows: Sequence[ScalingRow]) -> float | None:
    """Return the highest clock of a core at the start or end of a part, GHz."""
    states = (
        state
        for row in rows
        for repeat in row.repeats
        for pair in repeat.machines.values()
        for state in pair
    )
    clocks = [clock for one in states if isinstance(clock := one.get("clock"), int | float)]
    return max(clocks, default=0.0) or None
