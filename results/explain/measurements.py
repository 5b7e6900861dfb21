"""Measurements of a point's step for its verdict, from summaries of its repeats."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from bench.notes import NoteKind
from bench.trial import Trial
from results.rates import Rate
from results.record import amount, grouped
from results.repeat import RankSpeed, RepeatSummary

# Notes on a machine that changed its speed during the measurement.
MACHINE_NOTES = (NoteKind.SWAPPED, NoteKind.THROTTLED, NoteKind.CLOCK_FELL)
_LOOPBACK = "lo"
# A message costs a server as much CPU time as 130 KiB of gradients (docs/explanation/verdicts.md);
# arrays of half of that are small.
_SMALL_ARRAY = 64 * 1024
# A server lacks a core if its threads wait for one this many times longer than they run.
_STARVED = 4.0
# The counters of a machine at the begin and the end of measuring.
Counters = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SlowRank:
    """The slowest rank that repeats name, and its excess over the others per step."""

    rank: int
    host: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class StepMeasurements:
    """Seconds of one step by use, and the ceilings around it; None: not measured.

    step            of the slowest rank
    noise           half-width of the 95 % CI of `step` and of `alone` together
    alone           step of one device alone, without waiting for input
    own             forward and backward of a worker, the median of those that are not slow
    own_alone       the same of one device alone
    input           waiting for images, of the rank that waits longest
    slow_rank       the rank for which all others wait, if one is significantly slower
    worker_delay    a worker's threads waiting for a core, median of the ranks
    server_cpu      CPU time of the busiest server
    server_delay    the same server's threads waiting for a core
    link_bytes      bytes in the busier direction of the busiest host's interface; 0 if the job
                    uses no network
    arrays          arrays of gradients that a step exchanges
    other_cores     cores that other programs and hypervisors took, as a fraction of all
    disturbances    kinds of notes on swapping, heat and clocks
    low_gpu_utilization  mean share of time that the GPUs were busy, if it is low on all hosts of
                    workers
    reading         input pipeline alone, from bench.io
    store_bytes_per_second  throughput of the kvstore alone per worker, from bench.bandwidth
    tcp_bytes_per_second    throughput of one TCP connection, from bench.bandwidth
    """

    step: float | None = None
    noise: float = 0.0
    alone: float | None = None
    own: float | None = None
    own_alone: float | None = None
    input: float | None = None
    slow_rank: SlowRank | None = None
    worker_delay: float | None = None
    server_cpu: float | None = None
    server_delay: float | None = None
    link_bytes: float | None = None
    bytes_each_way: float | None = None
    arrays: float | None = None
    other_cores: float | None = None
    disturbances: tuple[NoteKind, ...] = ()
    low_gpu_utilization: float | None = None
    reading: float | None = None
    store_bytes_per_second: float | None = None
    tcp_bytes_per_second: float | None = None
    # Facts of the job.
    reads: bool = False
    workers: int = 1
    servers: int = 0
    hosts: int = 1

    @property
    def server(self) -> float | None:
        """Seconds in which the busiest server ran or waited for a core; 0 without servers."""
        if not self.servers:
            return 0.0
        if self.server_cpu is None:
            return None
        return self.server_cpu + (self.server_delay or 0.0)

    @property
    def messages_bound(self) -> bool:
        """Whether servers spend their time on the number of messages, not on their bytes.

        That is so for small arrays, unless the server lacks a core.
        """
        if not self.server_cpu or not self.bytes_each_way or not self.arrays:
            return False
        starved = (self.server_delay or 0.0) > _STARVED * self.server_cpu
        return self.bytes_each_way < _SMALL_ARRAY * self.arrays and not starved

    @property
    def link(self) -> float | None:
        """Seconds that the busiest link needs at the speed of TCP; 0 without a network."""
        if self.hosts < 2:
            return 0.0
        if self.link_bytes is None or not self.tcp_bytes_per_second:
            return None
        return self.link_bytes / self.tcp_bytes_per_second

    @property
    def store(self) -> float | None:
        """Seconds to push and pull the gradients through the kvstore alone."""
        if self.bytes_each_way is None or not self.store_bytes_per_second:
            return None
        return self.bytes_each_way / self.store_bytes_per_second


def point_measurements(
    repeats: Sequence[RepeatSummary], rate: Rate | None, base: StepMeasurements | None = None
) -> StepMeasurements:
    """Return the means over a point's repeats; a value that one of them lacks is None.

    base  measurements of the point on one device, with the same batch per device; None without
          one
    """
    found = [_of_repeat(one) for one in repeats if one.samples]
    if not found or rate is None:
        return StepMeasurements()
    trial = repeats[0].trial
    numbers = {
        name: _mean([getattr(one, name) for one in found])
        for name in ("own", "input", "worker_delay", "server_cpu", "server_delay")
    }
    numbers |= {
        name: _mean([getattr(one, name) for one in found])
        for name in ("link_bytes", "bytes_each_way", "arrays", "other_cores", "low_gpu_utilization")
    }
    if numbers["link_bytes"] is None:
        numbers["link_bytes"] = _exchanged_bytes(trial, numbers["bytes_each_way"])
    step = trial.global_batch / rate.images_per_second
    point = StepMeasurements(
        step=step,
        noise=step * (rate.relative_half_width or 0.0),
        slow_rank=_slowest([one.slow_rank for one in found]),
        disturbances=tuple(dict.fromkeys(kind for one in found for kind in one.disturbances)),
        reads=trial.mode == "real",
        workers=trial.workers,
        servers=trial.servers,
        hosts=trial.hosts,
        **numbers,
    )
    return with_baseline(point, point if trial.layout.devices == 1 and not trial.servers else base)


def _exchanged_bytes(trial: Trial, each_way: float | None) -> float | None:
    """Return the bytes per step in one direction of the busiest host, by the layout."""
    layout, hosts = trial.layout, trial.worker_hosts
    if each_way is None or not trial.servers:
        return None
    workers = min(trial.workers, -(-layout.devices_per_host // layout.devices_per_worker))
    if layout.server_hosts:
        return each_way * max(workers, trial.workers / layout.server_hosts)
    # A host sends to the other hosts' servers, and its own servers send to the other workers.
    return 2 * each_way * workers * (hosts - 1) / hosts


def with_baseline(point: StepMeasurements, base: StepMeasurements | None) -> StepMeasurements:
    """Return the measurements with the step of one device alone.

    That is the step of `base`, which may be the point itself, without its wait for images as far
    as that is not computing.
    """
    if base is None or base.step is None or base.input is None:
        return point
    spare = base.step - base.own if base.own is not None else base.input
    alone = base.step - min(base.input, max(0.0, spare))
    noise = point.noise if base is point else math.hypot(point.noise, base.noise)
    return replace(point, alone=alone, own_alone=base.own, noise=noise)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _slowest(found: Sequence[SlowRank | None]) -> SlowRank | None:
    """Return the rank that most repeats name, with its mean; None if most name none."""
    named = grouped(((one.rank, one.host), one) for one in found if one)
    most = max(named.values(), key=len, default=[])
    if 2 * len(most) <= len(found):
        return None
    return replace(most[0], seconds=fmean(one.seconds for one in most))


def _of_repeat(one: RepeatSummary) -> StepMeasurements:
    """Return what a single good repeat measured, besides the length of its step."""
    ranks = list(one.rank_speeds)
    slow = [note for note in one.notes if note.kind is NoteKind.SLOW_RANK]
    named = {note.scope.get("rank") for note in slow}
    own = _median(rank.own_seconds for rank in ranks if rank.rank not in named)
    cpu, delay = _busiest_server(one)
    return StepMeasurements(
        own=own,
        input=_most(rank.input_wait for rank in ranks),
        slow_rank=_slow_rank(ranks, named, own),
        worker_delay=_median(rank.run_delay for rank in ranks),
        server_cpu=cpu,
        server_delay=delay,
        link_bytes=_link_bytes(one),
        bytes_each_way=_positive(one.facts.get("bytes_each_way")),
        arrays=_positive(one.facts.get("arrays")),
        other_cores=_other_cores(one),
        disturbances=tuple(note.kind for note in one.notes if note.kind in MACHINE_NOTES),
        low_gpu_utilization=_low_gpu_utilization(one),
    )


def _low_gpu_utilization(one: RepeatSummary) -> float | None:
    """Return the mean of the notes on GPUs that waited; None if a host has none."""
    low = {
        str(note.scope.get("host")): amount(note.figures.get("share"))
        for note in one.notes
        if note.kind is NoteKind.LOW_GPU_UTILIZATION
    }
    return _known((low.get(host) for host in {rank.host for rank in one.rank_speeds}), fmean)


def _median(values: Iterable[float | None]) -> float | None:
    return _known(values, median)


def _most(values: Iterable[float | None]) -> float | None:
    return _known(values, max)


def _known(
    values: Iterable[float | None], pick: Callable[[Sequence[float]], float]
) -> float | None:
    """Apply a function to the values; None if one of them, or all, are missing."""
    found = list(values)
    known = [one for one in found if one is not None]
    return pick(known) if known and len(known) == len(found) else None


def _slow_rank(
    ranks: Sequence[RankSpeed], named: set[object], own: float | None
) -> SlowRank | None:
    found = [one for one in ranks if one.rank in named and one.own_seconds is not None]
    if not found or own is None:
        return None
    slow = max(found, key=lambda one: one.own_seconds or 0.0)
    seconds = (slow.own_seconds or 0.0) - own
    return SlowRank(rank=slow.rank, host=slow.host, seconds=seconds)


def _step(one: RepeatSummary) -> float:
    """Return the seconds of a step of one repeat."""
    windows = one.steady_windows
    seconds, images = (math.fsum(part) for part in zip(*windows, strict=True))
    return seconds / images * one.trial.global_batch


def _span(counters: Sequence[Counters]) -> float | None:
    """Return the seconds between the two counters of a host."""
    if len(counters) != 2:
        return None
    first, last = (amount(one.get("at")) for one in counters)
    return last - first if first is not None and last is not None and last > first else None


def _positive(value: object) -> float | None:
    return amount(value) or None


def _busiest_server(one: RepeatSummary) -> tuple[float | None, float | None]:
    """Return CPU seconds and run delay per step of the server that needs most of both."""
    found: list[tuple[float, float]] = []
    for counters in one.machines.values():
        span = _span(counters)
        if span is None:
            continue
        first, last = (_servers(each) for each in counters)
        for name in first.keys() & last.keys():
            cpu, delay = (b - a for a, b in zip(first[name], last[name], strict=True))
            found.append((cpu / span, delay / span))
    if not found or len(found) < one.trial.servers:
        return None, None
    cpu, delay = max(found, key=sum)
    return max(0.0, cpu) * _step(one), max(0.0, delay) * _step(one)


def _servers(counters: Counters) -> dict[str, tuple[float, float]]:
    """Return CPU seconds and run delay of each server of a host, by its name there."""
    listed = counters.get("servers")
    found = {}
    for one in listed if isinstance(listed, list) else []:
        if not isinstance(one, dict):
            continue
        cpu, delay = amount(one.get("cpu_seconds")), amount(one.get("run_delay"))
        if cpu is not None and delay is not None:
            found[str(one.get("process"))] = cpu, delay
    return found


def _link_bytes(one: RepeatSummary) -> float | None:
    """Return the bytes per step of the busiest interface's busier direction."""
    if one.trial.hosts < 2:
        return 0.0
    rates = []
    for counters in one.machines.values():
        span = _span(counters)
        ends = [each.get("network") for each in counters]
        if span is None or not all(isinstance(each, dict) for each in ends):
            continue
        if any(isinstance(each, dict) and each.get("interface") == _LOOPBACK for each in ends):
            continue  # traffic within a host is none of its link
        for name in ("bytes_in", "bytes_out"):
            first, last = (amount(each.get(name)) for each in ends if isinstance(each, dict))
            if first is not None and last is not None and last >= first:
                rates.append((last - first) / span)
    return max(rates) * _step(one) if rates else None


def _other_cores(one: RepeatSummary) -> float | None:
    """Return the largest share of a machine's cores that others took."""
    shares = []
    for counters in one.machines.values():
        last = counters[-1] if counters else {}
        amounts, cores = last.get("interference"), _positive(last.get("cores"))
        if not isinstance(amounts, dict) or cores is None:
            continue
        seconds, *taken = (amount(amounts.get(n)) for n in ("seconds", "others", "stolen"))
        if seconds and None not in taken:
            shares.append(sum(filter(None, taken)) / seconds / cores)
    return max(shares, default=None)
