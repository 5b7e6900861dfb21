"""The model of a figure: lines, failed points, ceilings, the second host."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.trial import FIELDS
from plots.point_labels import format_fields
from results.imports.point import IMPORTED
from results.record import grouped
from results.run import Run
from results.scaling import ScalingRow
from results.speedup import Baseline

# Okabe and Ito's colours, which colour-blind people tell apart; a marker for each line besides.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "p", "<", ">", "h", "*", "8")
_LINES = ("-", "--", ":", "-.")
TRAINING = ("synthetic", "real")
# What follows the name of a run that was played.
REHEARSAL = " (rehearsal)"


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points that are joined: one network, and one store where stores overlap.

    what    its store, and what else tells it from the network's other lines
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
        """Its name in the legend."""
        return f"{self.network}, {self.what}"

    @property
    def end(self) -> str:
        """What is written at its end: as little of its name as tells it apart."""
        return self.network if self.alone else self.label


@dataclass(frozen=True, kw_only=True)
class FailedPoint:
    """A point of training that has no number, in its network's colour."""

    row: ScalingRow
    colour: str


def drawable(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """The good points of training; of networks measured on one device count only if all are."""
    good = [row for row in rows if row.rate and row.trial.mode in TRAINING]
    groups = grouped((network_label(row), row) for row in good).values()
    several = (group for group in groups if len({one.trial.layout.devices for one in group}) > 1)
    scaled = [row for group in several for row in group]
    return scaled or good


def is_drawn(rows: Sequence[ScalingRow]) -> bool:
    """Whether there is anything for a figure: a point of training, with a number or without."""
    return bool(drawable(rows) or failed_points(rows))


def lines(rows: Sequence[ScalingRow]) -> list[Line]:
    """The drawable points as lines: a colour a network, dashes a store, a marker each.

    Stores of a network that share no device count make one line, as in a study that uses one
    store within a host and another beyond it. Points of different tools never do.
    """
    found: list[Line] = []
    colours = _colours(rows)
    for name, group in grouped((network_label(row), row) for row in drawable(rows)).items():
        parts = _parts(group)
        for place, (what, members) in enumerate(parts):
            found.append(
                Line(
                    network=name,
                    what=what,
                    alone=len(parts) == 1,
                    rows=tuple(sorted(members, key=lambda row: row.trial.layout.devices)),
                    colour=colours[name],
                    marker=MARKERS[len(found) % len(MARKERS)],
                    dashes=_LINES[place % len(_LINES)],
                )
            )
    return found


def failed_points(rows: Sequence[ScalingRow]) -> list[FailedPoint]:
    """The points of training without a number."""
    colours = _colours(rows)
    failed = [row for row in rows if row.rate is None and row.trial.mode in TRAINING]
    return [FailedPoint(row=row, colour=colours[network_label(row)]) for row in failed]


def network_label(row: ScalingRow) -> str:
    """The network's name, and on what where that is real data."""
    real = " (real data)" if row.trial.mode == "real" else ""
    return row.trial.label + real


def _colours(rows: Sequence[ScalingRow]) -> dict[str, str]:
    """A colour a network; those without a line come last."""
    failed = [row for row in rows if row.rate is None and row.trial.mode in TRAINING]
    names = dict.fromkeys(network_label(row) for row in (*drawable(rows), *failed))
    return {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}


def _parts(rows: Sequence[ScalingRow]) -> list[tuple[str, list[ScalingRow]]]:
    """Points of one network by line: who measured, store, what differs on as many devices."""
    origins = grouped((_origin(row), row) for row in rows)
    if len(origins) == 1:
        return _stores(rows)
    return [
        (f"{what}, {origin}" if origin not in what else what, some)
        for origin, members in origins.items()
        for what, some in _stores(members)
    ]


def _origin(row: ScalingRow) -> str:
    """What its figures come from; logs of one tool are one origin, as they are one base's."""
    if row.trial.engine.startswith(IMPORTED):
        return row.trial.engine
    return "; ".join((row.trial.engine, *row.sources))


def _stores(rows: Sequence[ScalingRow]) -> list[tuple[str, list[ScalingRow]]]:
    stores = grouped((row.trial.layout.kvstore, row) for row in rows)
    if "kvstore" not in _varied(rows, ("kvstore",)):
        stores = {" / ".join(stores): list(rows)}
    found = []
    for store, members in stores.items():
        names = _varied(members, [name for name in FIELDS if not name.startswith("fake_")])
        texts = grouped((format_fields(row.trial, names), row) for row in members)
        for more, some in texts.items():
            found.append((f"{store}, {more}" if more else store, some))
    return found


def _varied(rows: Sequence[ScalingRow], names: Sequence[str]) -> list[str]:
    """The fields that differ between points on as many devices."""
    groups = grouped((row.trial.layout.devices, row) for row in rows).values()
    return [
        name
        for name in names
        if any(len({row.trial.value(name) for row in group}) > 1 for group in groups)
    ]


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """Images per second that cannot be passed, by device count.

    line    a network's colour for its one-device rate times devices, "" for the input pipeline
    """

    label: str
    colour: str
    points: dict[int, float]


@dataclass(frozen=True, kw_only=True)
class FigureModel:
    """All that is drawn of a run.

    behind       lines of another run, and its name
    ideals       each network's one-device rate times devices
    inputs       what reading alone gives, times hosts
    second_host  where on the device axis it begins; None where all points have as many hosts
    baseline     that speed-ups are against; None: one device
    """

    lines: tuple[Line, ...]
    crosses: tuple[FailedPoint, ...]
    behind: tuple[Line, ...] = ()
    behind_name: str = ""
    ideals: tuple[Ceiling, ...] = ()
    inputs: tuple[Ceiling, ...] = ()
    second_host: float | None = None
    baseline: Baseline | None = None

    @property
    def counts(self) -> list[int]:
        """The device counts of all points, those of the other run too."""
        rows = [row for line in (*self.lines, *self.behind) for row in line.rows]
        return sorted(
            {row.trial.layout.devices for row in (*rows, *(one.row for one in self.crosses))}
        )


def figure_model(rows: Sequence[ScalingRow], over: Run | None = None) -> FigureModel:
    """What is drawn of these rows, with another run behind them."""
    drawn, failed = lines(rows), failed_points(rows)
    behind = lines(over.rows) if over else []
    # Of another run, the networks that this one has; all where they share none.
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
    )


def run_title(run: Run) -> str:
    """Its name, and that it is a rehearsal where it is one."""
    return run.name + (REHEARSAL if run.rehearsal else "")


def _ideals(drawn: Sequence[Line]) -> list[Ceiling]:
    """The one-device rate times devices, once for each base, over all counts of its lines."""
    found: dict[tuple[str, float], set[int]] = {}
    for line in drawn:
        for row in line.rows:
            if base := one_device(row):
                found.setdefault((line.colour, float(f"{base:.9g}")), set()).add(
                    row.trial.layout.devices
                )
    return [
        Ceiling(label="one device x n", colour=colour, points={n: n * one for n in sorted(counts)})
        for (colour, one), counts in found.items()
        if len(counts) > 1
    ]


def one_device(row: ScalingRow) -> float | None:
    """Images per second of one device of the baseline that its speed-up is against."""
    if not row.rate or not row.shown_scaling:
        return None
    rate = row.rate.images_per_second / row.shown_scaling.speedup.value
    return rate / row.shown_scaling.baseline.devices


def _inputs(rows: Sequence[ScalingRow], trained: Sequence[ScalingRow]) -> list[Ceiling]:
    """What one host reads at best, times the hosts of each point that reads as large images."""
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
            found.append(Ceiling(label=f"input pipeline{size} x hosts", colour="", points=points))
    return found


def _second_host(trained: Sequence[ScalingRow]) -> float | None:
    """Between the most devices on one host and the fewest on several, on a logarithmic axis."""
    one = [row.trial.layout.devices for row in trained if row.trial.worker_hosts == 1]
    more = [row.trial.layout.devices for row in trained if row.trial.worker_hosts > 1]
    if not one or not more or max(one) >= min(more):
        return None
    return math.sqrt(max(one) * min(more))
