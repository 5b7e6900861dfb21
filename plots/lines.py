"""Which points are joined to which line, and how each line looks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from results.scaling import ScalingRow

# Okabe and Ito's colours, which colour-blind people tell apart; a marker for each besides.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_LINES = ("-", "--", ":", "-.")


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points that are joined: one network, and one store where stores overlap."""

    label: str
    rows: tuple[ScalingRow, ...]
    colour: str
    marker: str
    dashes: Any


def drawable(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """The good points of training; of networks measured on one device count only if all are."""
    good = [row for row in rows if row.rate and row.trial.mode in {"synthetic", "real"}]
    scaled = [
        row
        for _, group in _grouped(good, _network)
        for row in group
        if len({one.trial.devices for one in group}) > 1
    ]
    return scaled or good


def lines(rows: Sequence[ScalingRow]) -> list[Line]:
    """The drawable points as lines: a colour a network, dashes a store, a marker each.

    Stores of a network that share no device count make one line, as in a study that uses one
    store within a host and another beyond it.
    """
    found: list[Line] = []
    for number, (name, group) in enumerate(_grouped(drawable(rows), _network)):
        stores = _grouped(group, lambda row: row.trial.kvstore)
        counts = [row.trial.devices for row in group]
        if len(set(counts)) == len(counts):
            stores = [(" / ".join(store for store, _ in stores), group)]
        for place, (store, members) in enumerate(stores):
            found.append(
                Line(
                    label=f"{name}, {store}",
                    rows=tuple(sorted(members, key=lambda row: row.trial.devices)),
                    colour=_COLOURS[number % len(_COLOURS)],
                    marker=_MARKERS[len(found) % len(_MARKERS)],
                    dashes=_LINES[place % len(_LINES)],
                )
            )
    return found


def _network(row: ScalingRow) -> str:
    real = " (real data)" if row.trial.mode == "real" else ""
    return row.trial.label + real


def _grouped(
    rows: Sequence[ScalingRow], key: Callable[[ScalingRow], str]
) -> list[tuple[str, list[ScalingRow]]]:
    names = dict.fromkeys(key(row) for row in rows)
    return [(name, [row for row in rows if key(row) == name]) for name in names]
