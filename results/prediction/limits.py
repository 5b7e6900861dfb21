"""Limits of a prediction: given as options, or measured in the same run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bench.errors import SpecError, error_line, quoted
from results.explain.ceilings import CeilingPoint, ceilings
from results.prediction.series import Series, rate_of
from results.scaling import ScalingRow

_BANDWIDTH = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) ?([kKmMgGtT])(B|b|[bB]it)(?:ps|/s)?")
_PREFIX = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?) ?%|(0?\.[0-9]{1,6}|1(?:\.0{1,6})?)")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Measured or given limits; None: unknown.

    link     bytes/s of each host's network, each way
    servers  number of servers, each on a host of its own; None: as the last point has them
    server   bytes/s that one server receives, and sends
    input    images/s that the input pipeline of one host delivers
    """

    link: float | None = None
    servers: int | None = None
    server: float | None = None
    input: float | None = None


def parse_bandwidth(text: str) -> float:
    """Return a bandwidth such as '25Gb' in bytes/s; SpecError if it is none."""
    found = _BANDWIDTH.fullmatch(text.strip())
    value = float(found[1]) * _PREFIX[found[2].lower()] if found else 0.0
    if not found or not value:
        wanted = "a bandwidth above 0, such as 25Gb, 200Mbit/s or 3GB"
        fix = "b is bits per second, B bytes per second"
        raise SpecError(error_line("--bandwidth", expected=wanted, got=quoted(text), fix=fix))
    return value if found[3] == "B" else value / 8


def parse_efficiency(text: str) -> float:
    """Return an efficiency such as '90%' as a fraction; SpecError if it is none."""
    found = _SHARE.fullmatch(text.strip())
    value = (float(found[1]) / 100 if found[1] else float(found[2])) if found else 0.0
    if not 0 < value <= 1:
        wanted = "a percentage above 0 and up to 100, such as 90%"
        raise SpecError(error_line("--efficiency", expected=wanted, got=quoted(text)))
    return value


def limits_of(
    rows: Sequence[ScalingRow], series: Series, given: Limits, points: Sequence[CeilingPoint] = ()
) -> Limits:
    """Return the limits of a series: those given, else those that were measured.

    points  of runs of bench.io and bench.bandwidth; those that fit the last point count. A job on
            one host measures no network between hosts.
    """
    found, trial = ceilings(series.last, points), series.trial
    several = trial.hosts > 1
    moved = found.store_bytes_per_second if several and trial.servers else None
    images = trial.worker_batch * min(trial.workers, series.workers_per_host)
    reading = images / found.reading if found.reading else _own_reading(rows, series)
    return Limits(
        link=given.link or (found.tcp_bytes_per_second if several else None),
        servers=given.servers,
        server=given.server or (moved and moved * trial.workers / trial.servers),
        input=given.input or reading,
    )


def _own_reading(rows: Sequence[ScalingRow], series: Series) -> float | None:
    """Return the best input pipeline of the same run with the same images, per host."""
    shape = series.trial.model.image_shape
    inputs = [
        rate_of(row).images_per_second / row.trial.worker_hosts
        for row in rows
        if row.trial.mode == "test-io" and row.rate and row.trial.model.image_shape == shape
    ]
    return max(inputs, default=None)
