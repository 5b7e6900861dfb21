"""What stands in the figure besides panels: lines, marks, ceilings, and where hosts begin."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plots.lines import Cross, Line, crosses, lines
from results.run import Run
from results.scaling import ScalingRow
from results.speedup import Baseline

# What follows the name of a run that was played.
REHEARSAL = " (rehearsal)"


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """Images per second that cannot be passed, by device count.

    line    a network's colour for its one-device rate times devices, "" for the input pipeline
    """

    label: str
    colour: str
    points: dict[int, float]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """All that is drawn of a run.

    behind       lines of another run, and its name
    ideals       each network's one-device rate times devices
    inputs       what reading alone gives, times hosts
    second_host  where on the device axis it begins; None where all points have as many hosts
    baseline     that speed-ups are against; None: one device
    """

    lines: tuple[Line, ...]
    crosses: tuple[Cross, ...]
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
        return sorted({row.trial.devices for row in (*rows, *(one.row for one in self.crosses))})


def picture(rows: Sequence[ScalingRow], over: Run | None = None) -> Picture:
    """What is drawn of these rows, with another run behind them."""
    drawn, failed = lines(rows), crosses(rows)
    behind = lines(over.rows) if over else []
    # Of another run, the networks that this one has; all where they share none.
    labels = {row.trial.label for line in drawn for row in line.rows}
    shared = [line for line in behind if line.rows[0].trial.label in labels]
    trained = [row for line in drawn for row in line.rows] + [one.row for one in failed]
    return Picture(
        lines=tuple(drawn),
        crosses=tuple(failed),
        behind=tuple(shared or behind),
        behind_name=called(over) if over else "",
        ideals=tuple(_ideals(drawn)),
        inputs=tuple(_inputs(rows, trained)),
        second_host=_second_host(trained),
        baseline=next((row.wanted for row in rows), None),
    )


def called(run: Run) -> str:
    """Its name, and that it is a rehearsal where it is one."""
    return run.name + (REHEARSAL if run.rehearsal else "")


def _ideals(drawn: Sequence[Line]) -> list[Ceiling]:
    """The one-device rate times devices, once for each base, over all counts of its lines."""
    found: dict[tuple[str, float], set[int]] = {}
    for line in drawn:
        for row in line.rows:
            if base := one_device(row):
                found.setdefault((line.colour, float(f"{base:.9g}")), set()).add(row.trial.devices)
    return [
        Ceiling(label="one device x n", colour=colour, points={n: n * one for n in sorted(counts)})
        for (colour, one), counts in found.items()
        if len(counts) > 1
    ]


def one_device(row: ScalingRow) -> float | None:
    """Images per second of one device of the baseline that its speed-up is against."""
    if not row.rate or not row.shown:
        return None
    rate = row.rate.images_per_second / row.shown.speedup.value
    return rate / row.shown.baseline.devices


def _inputs(rows: Sequence[ScalingRow], trained: Sequence[ScalingRow]) -> list[Ceiling]:
    """What one host reads at best, times the hosts of each point that reads as large images."""
    best: dict[tuple[int, ...], float] = {}
    for row in rows:
        if row.trial.mode == "test-io" and row.rate:
            each = row.rate.images_per_second / row.trial.worker_hosts
            shape = row.trial.image_shape
            best[shape] = max(each, best.get(shape, 0.0))
    found = []
    for shape, each in best.items():
        hosts = {r.trial.devices: r.trial.worker_hosts for r in trained if shape == _shape(r)}
        size = f" {shape[-1]} x {shape[-2]}" if len(best) > 1 else ""
        if hosts:
            points = {devices: each * hosts[devices] for devices in sorted(hosts)}
            found.append(Ceiling(label=f"input pipeline{size} x hosts", colour="", points=points))
    return found


def _shape(row: ScalingRow) -> tuple[int, ...]:
    return row.trial.image_shape


def _second_host(trained: Sequence[ScalingRow]) -> float | None:
    """Between the most devices on one host and the fewest on several, on a logarithmic axis."""
    one = [row.trial.devices for row in trained if row.trial.worker_hosts == 1]
    more = [row.trial.devices for row in trained if row.trial.worker_hosts > 1]
    if not one or not more or max(one) >= min(more):
        return None
    return math.sqrt(max(one) * min(more))
