"""Ceilings of a point, measured alone by `bench.io` and `bench.bandwidth`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.settings.modes import MODES_OF, Mode
from bench.trial import Trial
from results.errors import StoreError
from results.host_facts import tcp_bytes_per_second
from results.reader import asked_trials
from results.repeat import RepeatSummary
from results.run import load
from results.run_folder import saved_runs
from results.scaling import ScalingRow, mb_per_second, with_verdict

_ALONE = {"test-io", "bandwidth"}


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """Limits of a point that were measured alone; None: not measured.

    reading                 seconds to read the images of a step
    store_bytes_per_second  bytes that a worker pushes, and pulls at the same time
    tcp_bytes_per_second    bytes of one TCP connection from the first host to the last
    runs                    names of the runs that measured them
    """

    reading: float | None = None
    store_bytes_per_second: float | None = None
    tcp_bytes_per_second: float | None = None
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CeilingPoint:
    """A point of `bench.io` or `bench.bandwidth`.

    per_second  images of all readers, or bytes of one worker in each direction
    raw_tcp     bytes per second of one TCP connection, if measured
    """

    run: str
    trial: Trial
    first: RepeatSummary
    per_second: float
    raw_tcp: float | None = None


def ceiling_points(runs: Path) -> list[CeilingPoint]:
    """Return the points that measured ceilings, of all runs in a folder.

    Skips runs with other points, runs that cannot be read, and points without a result.
    """
    found: list[CeilingPoint] = []
    for folder in saved_runs(runs):
        with suppress(StoreError, OSError):
            trials = asked_trials(folder)
            if trials and {trial.mode for trial in trials} <= _ALONE:
                found += _points(folder)
    return found


def _points(folder: Path) -> Iterator[CeilingPoint]:
    run = load(folder)
    for row in run.rows:
        if row.rate is None or not row.repeats or row.emulated or row.trial.scripted:
            continue
        moves = row.trial.mode == "bandwidth"
        rate = mb_per_second(row.trial, row.rate) * 1e6 if moves else row.rate.images_per_second
        yield CeilingPoint(
            run=run.name,
            trial=row.trial,
            first=row.repeats[0],
            per_second=rate,
            raw_tcp=tcp_bytes_per_second(run.environment) if moves else None,
        )


def ceilings(row: ScalingRow, points: Sequence[CeilingPoint]) -> Ceilings:
    """Return the ceilings of a point; of several measurements, the nearest in time."""
    if not row.repeats:
        return Ceilings()
    one = row.repeats[0]
    reading = _nearest(one, points, _reads_alike)
    moving = _nearest(one, points, _moves_alike)
    connected = _nearest(one, points, _connects_alike)
    used = [point for point in (reading, moving, connected) if point]
    return Ceilings(
        reading=_step_images(one.trial) / reading.per_second if reading else None,
        store_bytes_per_second=moving.per_second if moving else None,
        tcp_bytes_per_second=connected.raw_tcp if connected else None,
        runs=tuple(dict.fromkeys(point.run for point in used)),
    )


def _nearest(
    one: RepeatSummary,
    points: Iterable[CeilingPoint],
    fits: Callable[[RepeatSummary, CeilingPoint], bool],
) -> CeilingPoint | None:
    """Return the fitting point that was measured nearest in time."""
    fitting = [point for point in points if fits(one, point)]
    start = _time(one)
    return min(fitting, key=lambda point: abs(_time(point.first) - start), default=None)


def _time(one: RepeatSummary) -> float:
    """Return a repeat's start in seconds since 1970; 0 if unknown."""
    try:
        found = datetime.fromisoformat(one.started)
    except ValueError:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _workers_per_host(trial: Trial) -> int:
    layout = trial.layout
    return min(trial.workers, max(1, layout.devices_per_host // layout.devices_per_worker))


def _step_images(trial: Trial) -> int:
    """Return the images per step of the first host."""
    return sum(trial.worker_batches[: _workers_per_host(trial)])


def _reads_alike(one: RepeatSummary, point: CeilingPoint) -> bool:
    """Return whether readers read the same data as a host's workers, and as they do."""
    mine, other = one.trial, point.trial
    if mine.mode != "real" or other.mode != "test-io" or other.mxnet.cold:
        return False
    readers = _workers_per_host(mine)
    # A worker on CPU devices has its own cores; a single reader may use all.
    pinned = mine.layout.device == "gpu" or readers > 1 or mine.data.nthreads == 1
    return (
        pinned
        and other.workers == readers
        and _reading(mine) == _reading(other)
        and _has_same_data(one, point.first)
        and _shares_host(one, point.first)
    )


def _reading(trial: Trial) -> tuple[Any, ...]:
    """Return the settings that decide how long it takes to read an image."""
    options = [option for option in trial.mxnet.options if _is_of_reader(option)]
    return trial.model.image_shape, trial.data.nthreads, sorted(options)


def _is_of_reader(option: str) -> bool:
    name = option.partition("=")[0].removeprefix("--").replace("-", "_")
    return Mode.TEST_IO in MODES_OF.get(name, frozenset())


def _has_same_data(one: RepeatSummary, other: RepeatSummary) -> bool:
    """Return whether two repeats read the same images.

    A manifest covers validation data, too: with them, compare the place and the size.
    """
    if one.identity.data_manifest and not one.trial.data.val:
        return one.identity.data_manifest == other.identity.data_manifest
    size = one.facts.get("data_bytes")
    same = one.trial.data.train == other.trial.data.train
    return same and bool(size) and size == other.facts.get("data_bytes")


def _shares_host(one: RepeatSummary, other: RepeatSummary) -> bool:
    """Return whether a host of one is a host of the other, by name or machine."""
    names = set(one.identity.hosts) & set(other.identity.hosts)
    return bool(names or _machines(one) & _machines(other))


def _machines(one: RepeatSummary) -> set[str]:
    """Return the ids of a repeat's machines."""
    found = {str(each.get("machine") or "") for both in one.machines.values() for each in both}
    return found - {""}


def _moves_alike(one: RepeatSummary, point: CeilingPoint) -> bool:
    """Return whether the same workers and servers moved arrays on the same hosts."""
    mine, other = one.trial, point.trial
    return (
        other.mode == "bandwidth"
        and mine.layout.kvstore == other.layout.kvstore
        and (mine.workers, mine.servers, mine.hosts) == (other.workers, other.servers, other.hosts)
        and set(one.identity.hosts) == set(point.first.identity.hosts)
    )


def _connects_alike(one: RepeatSummary, point: CeilingPoint) -> bool:
    """Return whether TCP was measured between hosts that include the point's."""
    mine, there = set(one.identity.hosts), set(point.first.identity.hosts)
    return point.raw_tcp is not None and mine <= there and (len(mine) > 1) == (len(there) > 1)


def with_ceilings(row: ScalingRow, points: Sequence[CeilingPoint]) -> ScalingRow:
    """Return the row with the verdict that also knows its ceilings.

    The speed of TCP in the point's own run, if measured, counts before that of other runs.
    """
    if row.verdict is None:
        return row
    found, own = ceilings(row, points), row.verdict.measurements
    known = replace(
        own,
        reading=found.reading,
        store_bytes_per_second=found.store_bytes_per_second,
        tcp_bytes_per_second=own.tcp_bytes_per_second or found.tcp_bytes_per_second,
    )
    return with_verdict(row, known)
