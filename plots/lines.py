"""Which points are joined to which line, and how each line looks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.trial import FIELDS
from plots.apart import said
from results.imports.point import IMPORTED
from results.scaling import ScalingRow

# Okabe and Ito's colours, which colour-blind people tell apart; a marker for each line besides.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "D", "^", "v", "P", "p", "<", ">", "h", "*", "8")
_LINES = ("-", "--", ":", "-.")
TRAINING = ("synthetic", "real")


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
    dashes: Any

    @property
    def label(self) -> str:
        """Its name in the legend."""
        return f"{self.network}, {self.what}"

    @property
    def end(self) -> str:
        """What is written at its end: as little of its name as tells it apart."""
        return self.network if self.alone else self.label


@dataclass(frozen=True, kw_only=True)
class Cross:
    """A point of training that has no number, in its network's colour."""

    row: ScalingRow
    colour: str


def drawable(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """The good points of training; of networks measured on one device count only if all are."""
    good = [row for row in rows if row.rate and row.trial.mode in TRAINING]
    groups = (group for _, group in _grouped(good, network))
    several = (group for group in groups if len({one.trial.devices for one in group}) > 1)
    scaled = [row for group in several for row in group]
    return scaled or good


def is_drawn(rows: Sequence[ScalingRow]) -> bool:
    """Whether there is anything for a figure: a point of training, with a number or without."""
    return bool(drawable(rows) or crosses(rows))


def lines(rows: Sequence[ScalingRow]) -> list[Line]:
    """The drawable points as lines: a colour a network, dashes a store, a marker each.

    Stores of a network that share no device count make one line, as in a study that uses one
    store within a host and another beyond it. Points of different tools never do.
    """
    found: list[Line] = []
    colours = _colours(rows)
    for name, group in _grouped(drawable(rows), network):
        parts = _parts(group)
        for place, (what, members) in enumerate(parts):
            found.append(
                Line(
                    network=name,
                    what=what,
                    alone=len(parts) == 1,
                    rows=tuple(sorted(members, key=lambda row: row.trial.devices)),
                    colour=colours[name],
                    marker=_MARKERS[len(found) % len(_MARKERS)],
                    dashes=_LINES[place % len(_LINES)],
                )
            )
    return found


def crosses(rows: Sequence[ScalingRow]) -> list[Cross]:
    """The points of training without a number."""
    colours = _colours(rows)
    failed = [row for row in rows if row.rate is None and row.trial.mode in TRAINING]
    return [Cross(row=row, colour=colours[network(row)]) for row in failed]


def network(row: ScalingRow) -> str:
    """The network's name, and on what where that is real data."""
    real = " (real data)" if row.trial.mode == "real" else ""
    return row.trial.label + real


def _colours(rows: Sequence[ScalingRow]) -> dict[str, str]:
    """A colour a network; those without a line come last."""
    failed = [row for row in rows if row.rate is None and row.trial.mode in TRAINING]
    names = dict.fromkeys(network(row) for row in (*drawable(rows), *failed))
    return {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}


def _parts(rows: Sequence[ScalingRow]) -> list[tuple[str, list[ScalingRow]]]:
    """Points of one network by line: who measured, store, what differs on as many devices."""
    origins = _grouped(rows, _origin)
    if len(origins) == 1:
        return _stores(rows)
    return [
        (f"{what}, {origin}" if origin not in what else what, some)
        for origin, members in origins
        for what, some in _stores(members)
    ]


def _origin(row: ScalingRow) -> str:
    """What its figures come from; logs of one tool are one origin, as they are one base's."""
    if row.trial.engine.startswith(IMPORTED):
        return row.trial.engine
    sources = dict.fromkeys(one.source for one in row.repeats if one.source)
    return "; ".join((row.trial.engine, *sources))


def _stores(rows: Sequence[ScalingRow]) -> list[tuple[str, list[ScalingRow]]]:
    stores = _grouped(rows, lambda row: row.trial.kvstore)
    if "kvstore" not in _varied(rows, ("kvstore",)):
        stores = [(" / ".join(store for store, _ in stores), list(rows))]
    found = []
    for store, members in stores:
        names = _varied(members, [name for name in FIELDS if not name.startswith("fake_")])
        for more, some in _grouped(members, partial(_said, names)):
            found.append((f"{store}, {more}" if more else store, some))
    return found


def _said(names: Sequence[str], row: ScalingRow) -> str:
    return said(row.trial, names)


def _varied(rows: Sequence[ScalingRow], names: Sequence[str]) -> list[str]:
    """The fields that differ between points on as many devices."""
    groups = [group for _, group in _grouped(rows, lambda row: str(row.trial.devices))]
    return [
        name
        for name in names
        if any(len({getattr(row.trial, name) for row in group}) > 1 for group in groups)
    ]


def _grouped(
    rows: Sequence[ScalingRow], key: Callable[[ScalingRow], str]
) -> list[tuple[str, list[ScalingRow]]]:
    names = dict.fromkeys(key(row) for row in rows)
    return [(name, [row for row in rows if key(row) == name]) for name in names]
