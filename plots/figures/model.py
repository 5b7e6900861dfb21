"""The model of a figure: lines, failed points, ceilings, the second host."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.settings.point_names import format_fields
from bench.trial import FIELDS, values_of
from results.imports.point import IMPORTED
from results.prediction.calibration import NO_PREDICTIONS, Predictions, StoredPrediction
from results.record import grouped, kept_by_items
from results.run import Run
from results.scaling import ScalingRow
from results.speedup import Baseline

# Okabe and Ito's palette, safe for color-blind readers; each line also has a marker.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "p", "<", ">", "h", "*", "8")
_LINES = ("-", "--", ":", "-.")
TRAINING = ("synthetic", "real")
# Those of a script only make a simulation.
_SETTINGS = tuple(name for name in FIELDS if not name.startswith("fake_"))
_settings = values_of(_SETTINGS)
# Follows the name of a simulated run.
REHEARSAL = " (simulated)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Points joined by a line: one network, and one store if stores overlap.

    Lines of equal labels are distinct lines.

    what    its store, and the settings that distinguish it from the network's other lines
    alone   whether it is its network's only line
    """

    network: str
    what: str
    alone: bool
    rows: tuple[ScalingRow, ...]
    colour: str
    marker: str
    dashes: str

    @property
    def label(self) -> str:
        """The line's name in the legend."""
        return f"{self.network}, {self.what}"

    @property
    def end(self) -> str:
        """The label at the line's end: the shortest distinguishing name."""
        return self.network if self.alone else self.label


@dataclass(frozen=True, kw_only=True)
class FailedPoint:
    """A training point without a result, in its network's color."""

    row: ScalingRow
    colour: str


@kept_by_items
def scalable(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """Return good training points, without networks that have one device count only.

    If all networks have one device count only, all their points stay.
    """
    good = [row for row in rows if row.rate and row.trial.mode in TRAINING]
    groups = grouped((network_label(row), row) for row in good).values()
    several = (group for group in groups if len({one.trial.layout.devices for one in group}) > 1)
    scaled = [row for group in several for row in group]
    return scaled or good


@kept_by_items
def line_fields(rows: Sequence[ScalingRow]) -> list[str]:
    """Return the settings that vary within one kvstore of a network."""
    groups = grouped((_store(row), row) for row in scalable(rows)).values()
    found = {name for group in groups for name in _varied(group)}
    return [name for name in FIELDS if name in found]


@kept_by_items
def drawable(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """Return the `scalable` points that are drawn: one line per value of one setting.

    If several settings vary, the first one names the lines. A line has the points with one
    combination of the others, that of the most points; only the table shows the rest.
    """
    found = scalable(rows)
    names = line_fields(rows)
    if len(names) < 2:
        return found
    first, *others = names
    drawn: set[int] = set()
    for group in grouped(((_line_family(row, first)), row) for row in found).values():
        combinations = grouped((tuple(map(row.trial.value, others)), row) for row in group)
        # One combination for all stores, if they have it: their points may share a line.
        ordered = sorted(combinations.values(), key=lambda some: -len(some))
        for store in dict.fromkeys(row.trial.layout.kvstore for row in group):
            own = ([r for r in some if r.trial.layout.kvstore == store] for some in ordered)
            drawn.update(map(id, next(filter(None, own))))
    return [row for row in found if id(row) in drawn]


def _line_family(row: ScalingRow, field: str) -> tuple[str, str, object]:
    return network_label(row), _origin(row), row.trial.value(field)


def _store(row: ScalingRow) -> tuple[str, str, str]:
    return network_label(row), _origin(row), row.trial.layout.kvstore


def is_drawn(rows: Sequence[ScalingRow]) -> bool:
    """Return whether there is a training point to draw, with a result or without."""
    return bool(drawable(rows) or failed_points(rows))


def input_rows(rows: Sequence[ScalingRow]) -> dict[str, list[ScalingRow]]:
    """Return the input-pipeline points with a result, by requested page-cache state."""
    found = grouped(
        ("cold" if row.trial.mxnet.cold else "not dropped", row)
        for row in sorted(rows, key=lambda row: row.trial.data.nthreads)
        if row.trial.mode == "test-io" and row.rate
    )
    return {name: some for name, some in found.items() if len(some) > 1}


@kept_by_items
def lines(rows: Sequence[ScalingRow]) -> list[Line]:
    """Return the lines of the points that a figure draws."""
    return joined(drawable(rows), _colours(rows))


def joined(rows: Sequence[ScalingRow], colours: Mapping[str, str]) -> list[Line]:
    """Join points to lines: color by network, dashes by store, own marker.

    A network's stores that share no device count form one line, as in a study that uses one store
    within a host and another across hosts. Points of different tools are never joined.
    """
    found: list[Line] = []
    for name, group in grouped((network_label(row), row) for row in rows).items():
        parts = _parts(group)
        for place, (what, members) in enumerate(parts):
            found.append(
                Line(
                    network=name,
                    what=what,
                    alone=len(parts) == 1,
                    rows=tuple(sorted(members, key=lambda row: row.trial.layout.devices)),
                    colour=colours.get(name, ""),
                    marker=MARKERS[len(found) % len(MARKERS)],
                    dashes=_LINES[place % len(_LINES)],
                )
            )
    return found


def failed_points(rows: Sequence[ScalingRow]) -> list[FailedPoint]:
    """Return the training points without a result."""
    colours = _colours(rows)
    failed = [row for row in rows if row.rate is None and row.trial.mode in TRAINING]
    return [FailedPoint(row=row, colour=colours[network_label(row)]) for row in failed]


def network_label(row: ScalingRow) -> str:
    """Return the network's name, marked if it trained on real data."""
    real = " (real data)" if row.trial.mode == "real" else ""
    return row.trial.label + real


def _colours(rows: Sequence[ScalingRow]) -> dict[str, str]:
    """Return the color of each network; networks without a line come last."""
    failed = [row for row in rows if row.rate is None and row.trial.mode in TRAINING]
    names = dict.fromkeys(network_label(row) for row in (*drawable(rows), *failed))
    return {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}


def _parts(rows: Sequence[ScalingRow]) -> list[tuple[str, list[ScalingRow]]]:
    """Group one network's points into lines: by origin, store and differing settings."""
    origins = grouped((_origin(row), row) for row in rows)
    if len(origins) == 1:
        return _stores(rows)
    return [
        (f"{what}, {origin}" if origin not in what else what, some)
        for origin, members in origins.items()
        for what, some in _stores(members)
    ]


def _origin(row: ScalingRow) -> str:
    """Return the origin of its figures; logs of one tool share it and a baseline."""
    if row.trial.engine.startswith(IMPORTED):
        return row.trial.engine
    return "; ".join((row.trial.engine, *row.sources))


def _stores(rows: Sequence[ScalingRow]) -> list[tuple[str, list[ScalingRow]]]:
    stores = grouped((row.trial.layout.kvstore, row) for row in rows)
    if "kvstore" not in _varied(rows):
        stores = {" / ".join(stores): list(rows)}
    found = []
    for store, members in stores.items():
        names = _varied(members)
        families = grouped((tuple(map(row.trial.value, names)), row) for row in members)
        for some in families.values():
            more = format_fields(some[0].trial, names)
            found.append((f"{store}, {more}" if more else store, some))
    return found


def _varied(rows: Sequence[ScalingRow]) -> list[str]:
    """Return the fields that differ between points with the same device count."""
    groups = grouped((row.trial.layout.devices, row.trial) for row in rows).values()
    found: set[str] = set()
    for group in (one for one in groups if len(one) > 1):
        columns = zip(*map(_settings, group), strict=True)
        several = zip(_SETTINGS, columns, strict=True)
        found.update(name for name, values in several if len(set(values)) > 1)
    return [name for name in _SETTINGS if name in found]


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """An upper limit of the throughput (images/s) by device count.

    `colour` is a network's for its ideal line (1-device throughput x devices), "" for the input
    pipeline.
    """

    label: str
    colour: str
    points: dict[int, float]


@dataclass(frozen=True, kw_only=True)
class Fan:
    """Predictions of one line's job, by devices; never joined to its points.

    base     throughput (images/s) of the baseline, and its devices; None: of another job
    """

    label: str
    colour: str
    predictions: tuple[StoredPrediction, ...]
    base: tuple[float, int] | None


@dataclass(frozen=True, kw_only=True)
class FigureModel:
    """The contents of a run's figure.

    behind       lines of another run; behind_name is its name
    ideals       each network's 1-device throughput times devices
    inputs       throughput of the input-pipeline benchmark times hosts
    second_host  its place on the device axis; None if all points have the same number of hosts
    baseline     the chosen speed-up baseline; None: 1 device
    fans         predictions
    linear       whether the device axis is linear instead of logarithmic
    """

    lines: tuple[Line, ...]
    crosses: tuple[FailedPoint, ...]
    behind: tuple[Line, ...] = ()
    behind_name: str = ""
    ideals: tuple[Ceiling, ...] = ()
    inputs: tuple[Ceiling, ...] = ()
    second_host: float | None = None
    baseline: Baseline | None = None
    fans: tuple[Fan, ...] = ()
    linear: bool = False

    @property
    def counts(self) -> list[int]:
        """The device counts of all points, with those of the other run and predictions."""
        rows = [row for line in (*self.lines, *self.behind) for row in line.rows]
        found = {row.trial.layout.devices for row in (*rows, *(one.row for one in self.crosses))}
        return sorted(found | {one.devices for fan in self.fans for one in fan.predictions})


def figure_model(
    rows: Sequence[ScalingRow],
    over: Run | None = None,
    predictions: Predictions = NO_PREDICTIONS,
) -> FigureModel:
    """Return the figure of these rows, with another run behind them, and predictions."""
    drawn, failed = lines(rows), failed_points(rows)
    behind = lines(over.rows) if over else []
    # The other run's networks that this run has; all of them if they share none.
    labels = {row.trial.label for line in drawn for row in line.rows}
    shared = [line for line in behind if line.rows[0].trial.label in labels]
    trained = [row for line in drawn for row in line.rows] + [one.row for one in failed]
    return FigureModel(
        lines=tuple(drawn),
        crosses=tuple(failed),
        behind=tuple(shared or behind),
        behind_name=run_title(over) if over else "",
        ideals=tuple(_ideals(drawn)),
        inputs=tuple(_inputs(rows, trained)),
        second_host=_second_host(trained),
        baseline=next((row.chosen_baseline for row in rows), None),
        fans=tuple(_fans(drawn, predictions)),
    )


def _fans(drawn: Sequence[Line], predictions: Predictions) -> Iterator[Fan]:
    """Yield the predictions of the networks that are drawn."""
    for some in predictions.fans:
        first = some[0]
        lines = [one for one in drawn if one.network == first.network]
        for line in lines[:1]:
            alike = [row for row in line.rows if row.trial.device_batch == first.batch_per_device]
            bases = (_base(row) for row in alike)
            yield Fan(
                label=f"{first.network} {first.kvstore}",
                colour=line.colour,
                predictions=tuple(some),
                base=next(filter(None, bases), None),
            )


def _base(row: ScalingRow) -> tuple[float, int] | None:
    """Return throughput and devices of the row's baseline."""
    one = one_device(row)
    if one is None or row.shown_scaling is None:
        return None
    devices = row.shown_scaling.baseline.devices
    return one * devices, devices


def run_title(run: Run) -> str:
    """Return the run's name, marked if the run is simulated."""
    return run.name + (REHEARSAL if run.rehearsal else "")


def _ideals(drawn: Sequence[Line]) -> list[Ceiling]:
    """Return 1-device throughput x devices, per baseline, over its lines' counts."""
    found: dict[tuple[str, float], set[int]] = {}
    for line in drawn:
        for row in line.rows:
            if base := one_device(row):
                found.setdefault((line.colour, float(f"{base:.9g}")), set()).add(
                    row.trial.layout.devices
                )
    return [
        Ceiling(label="n x 1 device", colour=colour, points={n: n * one for n in sorted(counts)})
        for (colour, one), counts in found.items()
        if len(counts) > 1
    ]


def one_device(row: ScalingRow) -> float | None:
    """Return the throughput (images/s) of one device of the row's baseline."""
    if not row.rate or not row.shown_scaling:
        return None
    rate = row.rate.images_per_second / row.shown_scaling.speedup.value
    return rate / row.shown_scaling.baseline.devices


def _inputs(rows: Sequence[ScalingRow], trained: Sequence[ScalingRow]) -> list[Ceiling]:
    """Return the best input throughput per host times the hosts, by image size."""
    best: dict[tuple[int, ...], float] = {}
    for row in rows:
        if row.trial.mode == "test-io" and row.rate:
            each = row.rate.images_per_second / row.trial.worker_hosts
            shape = row.trial.model.image_shape
            best[shape] = max(each, best.get(shape, 0.0))
    found = []
    for shape, each in best.items():
        reading = (row.trial for row in trained if row.trial.model.image_shape == shape)
        hosts = {one.layout.devices: one.worker_hosts for one in reading}
        size = f" {shape[-1]} x {shape[-2]}" if len(best) > 1 else ""
        if hosts:
            points = {devices: each * hosts[devices] for devices in sorted(hosts)}
            found.append(Ceiling(label=f"input-pipeline limit{size}", colour="", points=points))
    return found


def _second_host(trained: Sequence[ScalingRow]) -> float | None:
    """Return the geometric mean of the most devices on 1 host and the fewest on more."""
    one = [row.trial.layout.devices for row in trained if row.trial.worker_hosts == 1]
    more = [row.trial.layout.devices for row in trained if row.trial.worker_hosts > 1]
    if not one or not more or max(one) >= min(more):
        return None
    return math.sqrt(max(one) * min(more))
