"""Fit the constants of predictions to published tables, and score them.

Reads tests/data/scaling_tables.csv. A cell is a table, its last known point and a larger target.
Each cell is predicted by constants that are fitted without the source of its table. Results:
docs/explanation/prediction.md. `--write` renews results/prediction/population.toml.
"""

import argparse
import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import permutations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.statistics.confidence import Numbers
from results.prediction.population import (
    FILE,
    FREEDOM,
    LEVELS,
    Constants,
    Kind,
    load_of,
    population,
)
from results.record import grouped

TABLES = Path(__file__).parents[2] / "tests" / "data" / "scaling_tables.csv"
# The batch per device changes along these series, or points are tuned differently, or there is
# no point between 1 and 16 devices.
_EXCLUDED = re.compile("mlperf_|aws_dlm_2$|horovod_pr44_")
# Servers on hosts of their own: they are no guide for servers beside each worker.
_SEPARATE_SERVERS = re.compile("ebug_daint_")
# From 64 to 128 hosts, the servers of these tables saturate.
_SATURATED = 128
# The tables of MXNet's tutorial.
SEED = re.compile("mxnet_p2_")
# What a source is called in the column `source`.
_SOURCES = {
    "apache/mxnet": "MXNet",
    "tensorflow/docs": "TensorFlow",
    "e-bug/": "e-bug",
    "DLPerf": "DLPerf",
    "FleetX": "FleetX",
    "DeepLearningExamples": "NVIDIA",
    "horovod/horovod": "Horovod",
}
# Names in the tables of networks in population.toml.
_NETWORKS = {"resnet-50 v1.5": "resnet-50", "vgg16": "vgg-16"}
# Tables of one job at several batches.
_BATCH = re.compile(r"(.*)_b[0-9]+(?:_b)?$")
_POWERS = {Kind.LIGHT: 0.5, Kind.HEAVY: 0.25, Kind.MULTI: 0.5}
_LOAD, _BANDWIDTH = 0.3, 2e9
# Seven sources cannot show how far an eighth may be off.
_LEAST_INFLATION = 1.1
_CLOSE = 0.05


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A target of a table, and the last point that is known.

    growth  logarithm of the time per image and device, relative to the known point
    hosts   number of hosts of the known point
    load    as in `load_of`; infinite if unknown
    """

    table: str
    source: str
    known: int
    devices: int
    hosts: int
    growth: float
    load: float

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds whose constants may predict the cell."""
        light = self.load <= _LOAD
        if self.hosts > 1:
            return (Kind.MULTI, Kind.LIGHT) if light else (Kind.MULTI,)
        return (Kind.LIGHT,) if light else (Kind.HEAVY,)

    @property
    def kind(self) -> Kind:
        """The kind whose constants are fitted to the cell."""
        return self.kinds[0]

    @property
    def is_saturated(self) -> bool:
        """Whether the servers of the target are known to saturate."""
        return bool(_SEPARATE_SERVERS.match(self.table)) and self.devices == _SATURATED

    @property
    def step(self) -> float:
        """The distance in sqrt(log2 devices)."""
        return math.sqrt(math.log2(self.devices)) - math.sqrt(math.log2(self.known))

    @property
    def doublings(self) -> float:
        """The distance in doublings."""
        return math.log2(self.devices / self.known)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A cell predicted by constants that do not know its source.

    error     predicted / published throughput - 1
    constant  the same of constant efficiency
    inside    whether each of LEVELS held the published throughput
    width     of the 95 % interval
    """

    cell: Cell
    error: float
    constant: float
    inside: tuple[bool, ...]
    width: float

    @property
    def doublings(self) -> int:
        """The whole number of doublings nearest to the distance."""
        return round(self.cell.doublings)


def read_cells(path: Path = TABLES) -> list[Cell]:
    """Return the cells of all tables with points on one host and on more."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["hosts"]]
    tables = grouped((row["table_id"], row) for row in rows if not _EXCLUDED.match(row["table_id"]))
    return [cell for name, some in tables.items() for cell in _cells(name, some)]


def _cells(name: str, rows: Sequence[Mapping[str, str]]) -> Iterable[Cell]:
    """Yield a table's cells.

    Each last point before the hosts grow is known once, and all points beyond are targets.
    """
    points = grouped((int(row["devices"]), row) for row in rows)
    rates = {n: _mean(float(row["images_per_sec"]) for row in points[n]) for n in sorted(points)}
    hosts = {n: int(points[n][0]["hosts"]) for n in rates}
    if hosts[min(rates)] != 1:
        return
    for count in sorted(set(hosts.values())):
        before = [n for n in rates if hosts[n] <= count]
        if len(before) < 2:
            continue
        known = before[-1]
        for devices, rate in rates.items():
            if hosts[devices] > count:
                yield Cell(
                    table=name,
                    source=next(one for part, one in _SOURCES.items() if part in rows[0]["source"]),
                    known=known,
                    devices=devices,
                    hosts=count,
                    growth=math.log(rates[known] / known / (rate / devices)),
                    load=_load(rows[0], min(rates), rates[min(rates)]),
                )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found)


def _load(row: Mapping[str, str], devices: int, rate: float) -> float:
    """Return a table's load; infinite if its batch or its network's size is unknown."""
    millions = population().parameters.get(_NETWORKS.get(row["model"], row["model"]))
    if millions is None or not row["batch_per_device"].isdecimal():
        return math.inf
    seconds = int(row["batch_per_device"]) * devices / rate
    stated = re.match(r"(\d+) Gbps", row["network"])
    link = float(stated[1]) * 1e9 / 8 if stated else math.inf
    return load_of(4e6 * millions, seconds, link, _BANDWIDTH)


def for_fits(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells that constants are fitted to."""
    return [cell for cell in cells if not _SEPARATE_SERVERS.match(cell.table)]


def without(source: str, cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of other sources."""
    return [cell for cell in cells if cell.source != source]


def fit(cells: Sequence[Cell], kind: Kind) -> Constants:
    """Fit the constants of a kind; every table has the same weight.

    The loss minimizes absolute residuals in units of doublings ** power. Each width is the
    maximum-likelihood scale of the residuals on its side. Widths are then inflated until the 95 %
    intervals of left-out sources hold.
    """
    some = [cell for cell in cells if cell.kind is kind]
    bare = _fit(some, _POWERS[kind])
    factor = max(_LEAST_INFLATION, _inflation(some, _POWERS[kind]))
    return replace(bare, down=bare.down * factor, up=bare.up * factor)


def _fit(cells: Sequence[Cell], power: float) -> Constants:
    sizes = {name: len(some) for name, some in grouped((c.table, c) for c in cells).items()}
    weights = np.array([1 / sizes[cell.table] for cell in cells])
    steps = np.array([cell.step for cell in cells])
    units = np.array([cell.doublings**power for cell in cells])
    growth = np.array([cell.growth for cell in cells])
    loss = _weighted_median(growth / steps, weights * steps / units)
    left = (growth - loss * steps) / units
    down, up = (_scale(left[side], weights[side]) for side in (left < 0, left > 0))
    return Constants(loss=loss, down=down, up=up, power=power)


def _weighted_median(values: Numbers, weights: Numbers) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, sums[-1] / 2)])


def _scale(values: Numbers, weights: Numbers) -> float:
    """Return the maximum-likelihood scale of a Student's t around 0."""
    square = float(np.average(values**2, weights=weights))
    for _ in range(500):
        shares = (FREEDOM + 1) / (FREEDOM + values**2 / square)
        square = float(np.average(shares * values**2, weights=weights))
    return math.sqrt(square)


def _inflation(cells: Sequence[Cell], power: float) -> float:
    """Return the factor of widths at which 95 % of left-out cells are inside."""
    ratios = []
    for source in {cell.source for cell in cells}:
        others = without(source, cells)
        if not others:
            continue
        found = _fit(others, power)
        ratios += [_beyond(found, cell, LEVELS[1]) for cell in cells if cell.source == source]
    return float(np.quantile(ratios, LEVELS[1], method="higher")) if ratios else 1.0


def _beyond(constants: Constants, cell: Cell, level: float) -> float:
    """Return the residual of a cell as a multiple of its interval's reach."""
    left = cell.growth - constants.growth(cell.known, cell.devices)
    down, up = constants.reach(cell.known, cell.devices, level)
    return left / up if left > 0 else -left / down


class Fits:
    """Constants fitted to all cells but those of one source, each made once."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = for_fits(cells)
        self._made: dict[tuple[str, Kind], Constants] = {}

    def constants(self, source: str, kind: Kind) -> Constants:
        """Return the constants of a kind, fitted without a source; '' leaves out none."""
        if (source, kind) not in self._made:
            self._made[source, kind] = fit(without(source, self._cells), kind)
        return self._made[source, kind]

    def score(self, cell: Cell) -> Score:
        """Predict a cell without its source; of several kinds, the narrowest counts."""
        found = [self.constants(cell.source, kind) for kind in cell.kinds]
        one = min(found, key=lambda each: each.width(cell.known, cell.devices))
        error = math.expm1(cell.growth - one.growth(cell.known, cell.devices))
        return Score(
            cell=cell,
            error=error,
            constant=math.expm1(cell.growth),
            inside=tuple(_beyond(one, cell, level) <= 1 for level in LEVELS),
            width=one.width(cell.known, cell.devices),
        )


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The scores of some cells; errors and shares as fractions."""

    scores: tuple[Score, ...]

    @cached_property
    def errors(self) -> Numbers:
        """The absolute errors."""
        return np.array([abs(one.error) for one in self.scores])

    @property
    def tables(self) -> int:
        """The number of tables."""
        return len({one.cell.table for one in self.scores})

    @property
    def close(self) -> float:
        """The share of cells within 5 %."""
        return float(np.mean(self.errors <= _CLOSE))

    @property
    def constant_close(self) -> float:
        """The share of cells that constant efficiency predicts within 5 %."""
        return float(np.mean([abs(one.constant) <= _CLOSE for one in self.scores]))

    @property
    def median(self) -> float:
        """The median absolute error."""
        return float(np.median(self.errors))

    @property
    def largest(self) -> float:
        """The largest absolute error."""
        return float(self.errors.max())

    def held(self, level: float) -> float:
        """Return the share of cells inside their intervals."""
        return float(np.mean([one.inside[LEVELS.index(level)] for one in self.scores]))

    def width(self, doublings: int | None = None) -> float:
        """Return the median width of the 95 % intervals, of cells at this distance."""
        found = [one.width for one in self.scores if doublings in {None, one.doublings}]
        return median(found) if found else math.nan


SELECTIONS: Mapping[str, Callable[[Score], bool]] = {
    "tutorial, up to 16 GPUs known": lambda one: (
        bool(SEED.match(one.cell.table)) and one.cell.known == 16
    ),
    "tutorial, up to 32 GPUs known": lambda one: (
        bool(SEED.match(one.cell.table)) and one.cell.known == 32
    ),
    "light": lambda one: one.cell.kind is Kind.LIGHT,
    "heavy": lambda one: one.cell.kind is Kind.HEAVY,
    "two hosts or more": lambda one: one.cell.kind is Kind.MULTI,
    "two hosts or more, one doubling": lambda one: (
        one.cell.kind is Kind.MULTI and one.doublings == 1
    ),
    "all": lambda _: True,
}


def summaries(scores: Sequence[Score]) -> dict[str, Summary]:
    """Return the summary of each selection."""
    return {
        name: Summary(scores=tuple(one for one in scores if fits(one)))
        for name, fits in SELECTIONS.items()
    }


@dataclass(frozen=True, kw_only=True)
class BatchChange:
    """A point on several hosts, predicted from the same job at another batch.

    factor  its batch / that of the other job
    lost    error if a step loses the same seconds at both batches
    same    error if the efficiency is the same
    """

    factor: float
    lost: float
    same: float


BATCHES: Mapping[str, Callable[[float], bool]] = {
    "batch doubled": lambda factor: 1.5 <= factor < 3,
    "batch 4 times or more": lambda factor: factor >= 3,
    "smaller batch": lambda factor: factor < 1,
}


def read_batches(path: Path = TABLES) -> list[BatchChange]:
    """Return the points of tables that differ by their batch, which their names end with."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["hosts"]]
    named = ((_BATCH.match(row["table_id"]), row) for row in rows)
    jobs = grouped((found[1], row) for found, row in named if found)
    return [one for some in jobs.values() for one in _batch_changes(some)]


def _batch_changes(rows: Sequence[Mapping[str, str]]) -> Iterable[BatchChange]:
    """Yield the points of a job on several hosts, each from every other batch."""
    steps: dict[int, dict[int, float]] = {}
    for row in rows:
        batch, devices = int(row["batch_per_device"]), int(row["devices"])
        seconds = batch * devices / float(row["images_per_sec"])
        steps.setdefault(batch, {})[devices] = seconds
    several = {int(row["devices"]) for row in rows if int(row["hosts"]) > 1}
    for known, other in permutations(steps, 2):
        here, there = steps[known], steps[other]
        if 1 not in here or 1 not in there:
            continue
        for devices in several & set(here) & set(there):
            lost = there[1] + here[devices] - here[1]
            same = there[1] * here[devices] / here[1]
            yield BatchChange(
                factor=other / known,
                lost=there[devices] / lost - 1,
                same=there[devices] / same - 1,
            )


def document(cells: Sequence[Cell], fits: Fits, found: Mapping[str, Summary]) -> str:
    """Return population.toml with constants fitted to all sources."""
    lines = [
        "# Written by: python -m benchmarks.statistics.prediction --write",
        "# Fitted to the published tables in tests/data/scaling_tables.csv, which names the source",
        "# of every figure. docs/explanation/prediction.md has the method and the scores.",
        f'date = "{datetime.now(UTC):%Y-%m-%d}"',
        'data = "tests/data/scaling_tables.csv"',
        f"load = {_LOAD}",
        f"bandwidth = {_BANDWIDTH:.1e}",
    ]
    names = {Kind.LIGHT: "light", Kind.HEAVY: "heavy", Kind.MULTI: "two hosts or more"}
    for kind, name in names.items():
        one, score = fits.constants("", kind), found[name]
        lines += ["", f"[kinds.{kind}]"]
        lines += [f"{key} = {getattr(one, key):.5g}" for key in ("loss", "down", "up", "power")]
        lines += [
            "# Cells and tables that it predicted with its source left out; share within 5 %.",
            f"cells = {len(score.scores)}",
            f"tables = {score.tables}",
            f"close = {score.close:.2f}",
        ]
    lines += ["", "# Millions of trained parameters with 1000 classes.", "[parameters]"]
    lines += [f'"{name}" = {value}' for name, value in population().parameters.items()]
    return "\n".join([*lines, ""])


def main() -> None:
    """Parse the command line, fit, score, and print Markdown tables."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.statistics.prediction", description=__doc__
    )
    parser.add_argument("--write", action="store_true", help="Renew population.toml")
    given = parser.parse_args()
    cells = read_cells()
    fits = Fits(cells)
    scores = [fits.score(cell) for cell in cells if not cell.is_saturated]
    found = summaries(scores)
    print("| kind | loss | down | up | power |")
    print("|---|---|---|---|---|")
    for kind in Kind:
        one = fits.constants("", kind)
        print(f"| {kind} | {one.loss:.4f} | {one.down:.4f} | {one.up:.4f} | {one.power} |")
    print(
        "\n| cells | cells / tables | median | largest | within 5 % | the same, constant ", end=""
    )
    print("efficiency | 80 % held | 95 % held | width at 2x / 4x / 8x / 16x |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, summary in found.items():
        print(_line(name, summary))
    saturated = [fits.score(cell) for cell in cells if cell.is_saturated]
    print(_line("saturated servers (apart)", Summary(scores=tuple(saturated))))
    _print_batches()
    if given.write:
        FILE.write_text(document(cells, fits, found), encoding="utf-8")


def _print_batches() -> None:
    print("\n| change | points | same lost seconds: median, p90 | same efficiency |")
    print("|---|---|---|---|")
    changes = read_batches()
    for name, fits_factor in BATCHES.items():
        some = [change for change in changes if fits_factor(change.factor)]
        errors = [np.abs([getattr(one, field) for one in some]) for field in ("lost", "same")]
        ends = (100 * np.quantile(one, (0.5, 0.9)) for one in errors)
        cells = " | ".join(f"{middle:.1f} %, {high:.1f} %" for middle, high in ends)
        print(f"| {name} | {len(some)} | {cells} |")


def _line(name: str, one: Summary) -> str:
    held = " | ".join(f"{100 * one.held(level):.0f} %" for level in LEVELS)
    widths = [one.width(n) for n in (1, 2, 3, 4)]
    shown = " / ".join("-" if math.isnan(w) else f"{100 * w:.0f}" for w in widths)
    figures: list[Any] = [one.median, one.largest, one.close, one.constant_close]
    cells = " | ".join(f"{100 * figure:.1f} %" for figure in figures)
    return f"| {name} | {len(one.scores)} / {one.tables} | {cells} | {held} | {shown} % |"


if __name__ == "__main__":
    main()
