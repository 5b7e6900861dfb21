"""Predict the throughput on more devices, with intervals, and the next point."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from bench.errors import SpecError, error_line
from bench.settings.parts import MOST_DEVICES
from results.prediction.limits import Limits
from results.prediction.population import LEVELS, Constants, Kind, population
from results.prediction.series import Series, rate_of
from results.rates import Rate

_NORMAL = {0.80: 1.2816, 0.95: 1.9600}


class Ceiling(StrEnum):
    """A limit of the throughput that no loss per doubling foresees."""

    LINK = "link"
    SERVER = "server"
    INPUT = "input"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The predicted throughput (images/s) on a number of devices.

    low_80 to high_95  ends of the 80 % and 95 % prediction intervals
    constant           throughput at the efficiency of the last point
    efficiency         per device, relative to the first point, with its 80 % interval
    kind               which constants were used
    ceiling            the limit that caps it or its intervals, if one does
    """

    devices: int
    hosts: int
    images_per_second: float
    low_80: float
    high_80: float
    low_95: float
    high_95: float
    constant: float
    efficiency: float
    efficiency_low: float
    efficiency_high: float
    kind: Kind
    ceiling: Ceiling | None = None


def constants_of(kinds: Sequence[Kind], known: int, devices: int) -> tuple[Kind, Constants]:
    """Return the kind with the narrowest interval, and its constants."""
    found = population().kinds
    kind = min(kinds, key=lambda one: found[one].width(known, devices))
    return kind, found[kind]


def check_devices(series: Series, devices: int) -> None:
    """Raise SpecError unless this many devices can be predicted."""
    where = f"--devices {devices} of {series.network}"
    if devices <= series.devices:
        expected = f"more than the {series.devices} measured"
        raise SpecError(error_line(where, expected=expected, got=devices))
    if devices % series.full_host:
        expected = f"a multiple of a full host ({series.full_host} devices)"
        below = devices // series.full_host * series.full_host
        nearest = [n for n in (below, below + series.full_host) if n > series.devices]
        fix = f"Give --devices {nearest[0]}"
        raise SpecError(error_line(where, expected=expected, got=devices, fix=fix))


def counts_up_to(series: Series, devices: int) -> list[int]:
    """Return the device counts to predict: doublings of full hosts, and the last."""
    hosts = devices // series.full_host
    doubled = (2**n for n in range(hosts.bit_length()))
    found = {n * series.full_host for n in doubled if series.devices < n * series.full_host}
    return sorted({n for n in found if n < devices} | {devices})


def predict(series: Series, devices: int, limits: Limits) -> Prediction:
    """Predict the throughput on this many devices, capped by the limits."""
    kind, constants = constants_of(_kinds(series, limits), series.devices, devices)
    growth = constants.growth(series.devices, devices)
    growths = [growth]
    for level in LEVELS:
        down, up = constants.reach(series.devices, devices, level)
        faster, slower = _own_reach(series.rate, level)
        growths += [growth + math.hypot(up, slower), growth - math.hypot(down, faster)]
    ceilings = dict(_ceilings(series, devices, limits))
    most = min(ceilings.values(), default=math.inf)
    bare = [_rate(series, devices, one) for one in growths]
    rate, *ends = (min(one, most) for one in bare)
    ideal = devices * _one_device(series)
    return Prediction(
        devices=devices,
        hosts=_hosts(series, devices),
        images_per_second=rate,
        **dict(zip(("low_80", "high_80", "low_95", "high_95"), ends, strict=True)),
        constant=ideal * _efficiency(series),
        efficiency=rate / ideal,
        efficiency_low=ends[0] / ideal,
        efficiency_high=ends[1] / ideal,
        kind=kind,
        ceiling=min(ceilings, key=lambda one: ceilings[one]) if max(bare) > most else None,
    )


def _kinds(series: Series, limits: Limits) -> list[Kind]:
    return series.kinds(series.trial.worker_hosts, math.inf if limits.link is None else limits.link)


def _hosts(series: Series, devices: int) -> int:
    return -(-devices // series.full_host)


def _rate(series: Series, devices: int, growth: float) -> float:
    """Return the throughput if the time per image and device grows so much."""
    seconds = math.exp(growth) * series.devices / series.rate.images_per_second
    if series.alone is None:
        return devices / seconds
    # The seconds that a step loses do not depend on the batch.
    lost = max(0.0, seconds * series.trial.device_batch - series.step_seconds)
    return devices * series.alone.batch / (series.alone.step_seconds + lost)


def _one_device(series: Series) -> float:
    """Return the throughput per device of the first point, at the batch to predict."""
    if series.alone:
        return series.alone.batch / series.alone.step_seconds
    return rate_of(series.first).images_per_second / series.first.trial.layout.devices


def _efficiency(series: Series) -> float:
    """Return the efficiency of the last point, relative to the first."""
    first, last = (
        rate_of(row).images_per_second / row.trial.layout.devices
        for row in (series.first, series.last)
    )
    return last / first


def _own_reach(rate: Rate, level: float) -> tuple[float, float]:
    """Return how far the measured throughput may lie above and below, as logarithms."""
    value, low, high = rate.images_per_second, rate.low, rate.high
    if low is None or high is None or low <= 0:
        return 0.0, 0.0
    share = _NORMAL[level] / _NORMAL[LEVELS[1]]
    return share * math.log(high / value), share * math.log(value / low)


def _ceilings(series: Series, devices: int, limits: Limits) -> Iterator[tuple[Ceiling, float]]:
    """Yield the images/s that each known limit permits."""
    trial, hosts = series.trial, _hosts(series, devices)
    if limits.input is not None and trial.mode == "real":
        yield Ceiling.INPUT, limits.input * hosts
    moved = series.gradient_bytes
    if moved is None or hosts < 2:
        return
    images = devices * (series.alone.batch if series.alone else trial.device_batch)
    workers = hosts * series.workers_per_host
    separate = separate_servers(series, limits)
    if limits.link is not None:
        # Beside each worker, a server receives and sends what the other hosts push and pull.
        share = 1.0 if separate else 2 * (hosts - 1) / hosts
        yield Ceiling.LINK, images * limits.link / (share * moved * series.workers_per_host)
    each = limits.server
    if separate and limits.link is not None:
        each = min(limits.link, math.inf if each is None else each)
    if each is not None:
        servers = separate or trial.servers * hosts / trial.worker_hosts or workers
        yield Ceiling.SERVER, images * each * servers / (moved * workers)


def plausible(series: Series, found: Limits, given: Limits) -> Limits:
    """Return the limits without measured ones that the last point exceeds."""
    measured = replace(series, alone=None)
    for ceiling, most in _ceilings(measured, series.devices, found):
        if most < series.rate.images_per_second and getattr(given, ceiling) is None:
            found = replace(found, **{ceiling: None})
    return found


def separate_servers(series: Series, limits: Limits) -> int:
    """Return the number of hosts with servers only; 0 if workers run beside servers."""
    if limits.servers is not None:
        return limits.servers
    trial = series.trial
    return trial.layout.server_hosts if trial.comm.servers else 0


def is_limit(series: Series, devices: int) -> bool:
    """Return whether no more devices than these are supported."""
    return devices + series.full_host > MOST_DEVICES


def largest_count(series: Series, efficiency: float, limits: Limits) -> int | None:
    """Return the most devices whose lower 80 % bound reaches an efficiency.

    None if even one more full host does not. The efficiency falls with the devices.
    """
    few, many = series.devices // series.full_host, MOST_DEVICES // series.full_host
    found = None
    while few < many:
        hosts = -(-(few + many) // 2)
        devices = hosts * series.full_host
        if predict(series, devices, limits).efficiency_low >= efficiency:
            found, few = devices, hosts
        else:
            many = hosts - 1
    return found


@dataclass(frozen=True, kw_only=True)
class NextPoint:
    """A point whose measurement would narrow a prediction.

    now, then  width of the 95 % interval, high / low - 1
    minutes    its measurement takes about so long; None if the run has no times
    """

    devices: int
    hosts: int
    now: float
    then: float
    minutes: float | None


def next_point(series: Series, devices: int, limits: Limits) -> NextPoint | None:
    """Return the point that narrows the interval most per minute of a host.

    None if no full hosts lie between the last point and the prediction.
    """
    link = math.inf if limits.link is None else limits.link
    now = constants_of(_kinds(series, limits), series.devices, devices)[1]
    minutes = series.last.elapsed_seconds / 60 or None
    found = []
    for count in counts_up_to(series, devices)[:-1]:
        hosts = _hosts(series, count)
        then = constants_of(series.kinds(hosts, link), count, devices)[1]
        found.append(
            NextPoint(
                devices=count,
                hosts=hosts,
                now=now.width(series.devices, devices),
                then=then.width(count, devices),
                minutes=minutes,
            )
        )
    return max(found, key=lambda one: (one.now - one.then) / one.hosts, default=None)
