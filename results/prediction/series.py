"""The points of one network that a prediction starts from."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.errors import SpecError, error_line
from bench.networks.catalog import NETWORKS
from bench.settings.declaration import Role
from bench.settings.point_names import format_value, is_called
from bench.trial import Trial, with_role
from results.prediction.population import Kind, load_of, population
from results.rates import Rate
from results.record import amount, grouped
from results.scaling import ScalingRow

_TRAINING = ("synthetic", "real")
# The settings that all points of a series share; a kvstore may differ, as in a study that uses
# one store within a host and another across hosts.
_BATCH = "batch_per_device"
SHARED = tuple(
    name
    for name in ("engine", *with_role(Role.IDENTITY))
    if name not in {"steps_per_window", "mode", _BATCH}
)
_CHOOSE = "Choose with --point"
_MOST_NAMED = 3
# Bytes of a gradient, by data type.
_BYTES = {"float16": 2}
# The share that compression leaves. 2bit: 2 of 32 bits are pushed, and all are pulled.
_COMPRESSED = {"2bit": (1 + 1 / 16) / 2, "ternary": 1 / 16}


@dataclass(frozen=True, kw_only=True)
class Series:
    """Good points of one network on growing numbers of devices.

    alone  throughput (images/s) of one device at another batch, if that is to be predicted
    """

    rows: tuple[ScalingRow, ...]
    alone: "OneDevice | None" = None

    @property
    def first(self) -> ScalingRow:
        """The point on the fewest devices."""
        return self.rows[0]

    @property
    def last(self) -> ScalingRow:
        """The point on the most devices."""
        return self.rows[-1]

    @property
    def trial(self) -> Trial:
        """The trial of the last point."""
        return self.last.trial

    @property
    def devices(self) -> int:
        """The largest number of devices that was measured."""
        return self.trial.layout.devices

    @property
    def full_host(self) -> int:
        """The devices of a full host."""
        return max(row.trial.layout.devices_per_host for row in self.rows)

    @property
    def network(self) -> str:
        """The network's name in tables."""
        real = " (real data)" if self.trial.mode == "real" else ""
        return self.trial.label + real

    @property
    def batch(self) -> int:
        """The batch per device to predict."""
        return self.alone.batch if self.alone else self.trial.training.batch_per_device

    @property
    def rate(self) -> Rate:
        """The throughput of the last point."""
        return rate_of(self.last)

    @property
    def step_seconds(self) -> float:
        """Seconds that a device of the first point takes for its batch."""
        return step_seconds(self.first)

    @property
    def gradient_bytes(self) -> float | None:
        """Bytes per step that a worker pushes, and pulls; None if unknown."""
        return gradient_bytes(self.rows)

    @property
    def workers_per_host(self) -> int:
        """Worker processes of a full host."""
        return max(1, self.full_host // self.trial.layout.devices_per_worker)

    def load(self, link: float = math.inf) -> float:
        """Return the load over a link (bytes/s); infinite if the bytes are unknown.

        It is that of the measured batch, whose lost seconds another batch has, too.
        """
        known = self.gradient_bytes
        if known is None:
            return math.inf
        moved = known * self.workers_per_host
        if self.trial.training.dtype == "float16":
            moved *= 2  # the tables were fitted with 4 bytes per parameter
        return load_of(moved, self.step_seconds, link, population().bandwidth)

    def kinds(self, hosts: int, link: float = math.inf) -> list[Kind]:
        """Return the kinds of this job with points on so many hosts; any of them applies."""
        light = self.load(link) <= population().load
        if hosts > 1:
            return [Kind.MULTI, Kind.LIGHT] if light else [Kind.MULTI]
        return [Kind.LIGHT if light else Kind.HEAVY]


@dataclass(frozen=True, kw_only=True)
class OneDevice:
    """One device at the batch to predict."""

    batch: int
    step_seconds: float


def rate_of(row: ScalingRow) -> Rate:
    """Return the throughput of a good point."""
    if row.rate is None:
        raise ValueError(f"{row.trial.name} has no result")
    return row.rate


def step_seconds(row: ScalingRow) -> float:
    """Return the seconds of a step: global batch / throughput."""
    return row.trial.global_batch / rate_of(row).images_per_second


def gradient_bytes(rows: Sequence[ScalingRow]) -> float | None:
    """Return the bytes that a worker pushes per step; None if unknown.

    They are those recorded, else those of the network.
    """
    for row in reversed(rows):
        for one in row.repeats:
            if value := amount(one.facts.get("bytes_each_way")):
                return value
    trial = rows[-1].trial
    millions = population().parameters.get(trial.network_name)
    usual = NETWORKS[trial.model.network].image_shape == trial.model.image_shape
    if millions is None or trial.model.num_classes != 1000 or not usual:
        return None
    compressed = _COMPRESSED.get(trial.training.gc_type, 1)
    return millions * 1e6 * _BYTES.get(trial.training.dtype, 4) * compressed


def series_of(
    rows: Sequence[ScalingRow], words: str = "", most: int | None = None, batch: int | None = None
) -> list[Series]:
    """Return one series per network; SpecError if one of them cannot be predicted.

    words  of the points to use, as `is_called` reads them; all without words
    most   use points on at most so many devices
    batch  the batch per device to predict
    """
    training = [row for row in rows if row.trial.mode in _TRAINING]
    chosen = [row for row in training if is_called(row.trial, words)]
    if not chosen:
        known = ", ".join(dict.fromkeys(row.trial.name for row in training[:_MOST_NAMED]))
        got = f"none with {words!r}; some of its points: {known}" if training else "none"
        fix = "'fab report.show' lists the points of a run"
        raise SpecError(error_line("--point", expected="points of training", got=got, fix=fix))
    if most is not None:
        chosen = [row for row in chosen if row.trial.layout.devices <= most]
        if not chosen:
            problem, fix = "no point has so few devices", "Give that of a measured point, or more"
            raise SpecError(error_line("--up-to", problem=problem, fix=fix))
    networks = grouped(((row.trial.mode, row.trial.label), row) for row in chosen)
    return [_series(some, batch) for some in networks.values()]


def _series(rows: Sequence[ScalingRow], batch: int | None) -> Series:
    """Return the series of one network's points; SpecError if they form none."""
    name = rows[0].trial.label
    batches = grouped((row.trial.training.batch_per_device, row) for row in rows)
    alone = None
    if batch is None:
        _one_value(name, _BATCH, rows, f"Choose one of them with --batch {min(batches)}")
        some = list(rows)
    elif len(batches.get(batch, ())) > 1:
        some = batches[batch]
    else:
        alone = _alone(name, batches.pop(batch, []), batch)
        some = [row for group in batches.values() for row in group]
        if some:
            _one_value(name, _BATCH, some, _choice(some, _BATCH))
    _check_points(name, some)
    for setting in (*SHARED, *with_role(Role.SERVERS)):
        _one_value(name, setting, some, _choice(some, setting))
    _one_per_count(name, some)
    if len(some) < 2:
        fix = "Measure it on one device and on a full host, or choose another with --point"
        got = f"one ({some[0].trial.name})" if some else "none"
        raise SpecError(error_line(name, expected="two points or more", got=got, fix=fix))
    if some[0].trial.training.global_batch_fixed:
        problem = "its global batch is fixed, and published tables have a fixed batch per device"
        fix = "Measure with batch_per_device"
        raise SpecError(error_line(name, problem=problem, fix=fix))
    ordered = sorted(some, key=lambda row: row.trial.layout.devices)
    if alone and ordered[0].trial.layout.devices > 1:
        where = f"--batch {batch} of {name}"
        got = f"none with batch {ordered[0].trial.training.batch_per_device}"
        fix = "Measure it too: the seconds that a step loses are relative to it"
        raise SpecError(error_line(where, expected="a point on one device", got=got, fix=fix))
    return Series(rows=tuple(ordered), alone=alone)


def _alone(name: str, rows: Sequence[ScalingRow], batch: int) -> OneDevice:
    """Return one device at this batch; SpecError if it is not measured."""
    good = [row for row in rows if row.rate and row.trial.layout.devices == 1]
    if not good:
        where = f"--batch {batch} of {name}"
        fix = f"Measure it: fab bench.sweep SWEEP --devices 1 with batch_per_device = {batch}"
        raise SpecError(error_line(where, expected="the point on one device", got="none", fix=fix))
    return OneDevice(batch=batch, step_seconds=step_seconds(good[0]))


def _check_points(name: str, rows: Sequence[ScalingRow]) -> None:
    """Raise SpecError for points that no prediction may rest on."""
    for row in rows:
        got = "oversubscribed" if row.emulated else row.status
        if row.emulated or row.rate is None or row.status != "ok":
            fix = "Measure it again, or leave it out with --point or --up-to"
            raise SpecError(error_line(row.trial.name, expected="status ok", got=got, fix=fix))


def _one_value(name: str, setting: str, rows: Sequence[ScalingRow], fix: str) -> None:
    """Raise SpecError if a setting differs between the points."""
    values = list(dict.fromkeys(format_value(row.trial.value(setting)) for row in rows))
    if len(values) > 1:
        shown = " and ".join(values[:_MOST_NAMED])
        raise SpecError(error_line(name, expected=f"one {setting}", got=shown, fix=fix))


def _choice(rows: Sequence[ScalingRow], setting: str) -> str:
    value = format_value(rows[0].trial.value(setting)).replace(" ", ",")
    return f"{_CHOOSE} {setting}={value}"


def _one_per_count(name: str, rows: Sequence[ScalingRow]) -> None:
    """Raise SpecError if two points have the same number of devices."""
    for count, some in grouped((row.trial.layout.devices, row) for row in rows).items():
        if len(some) > 1:
            comms = list(dict.fromkeys(row.trial.comm for row in some))
            if len(comms) > 1:
                chosen = max(comms, key=lambda comm: comm.spans)
                where = f"{name} on {count} device{'s' if count > 1 else ''}"
                raise SpecError(
                    error_line(
                        where,
                        expected="one kvstore",
                        got=" and ".join(comm.name for comm in comms),
                        fix=f"{_CHOOSE} {chosen.name}",
                    )
                )
            problem = "two points that differ in their layout"
            raise SpecError(error_line(some[0].trial.name, problem=problem, fix=_CHOOSE))
