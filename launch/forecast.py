"""Forecast of a sweep: runs measured, and the time of the others."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from bench.errors import SpecError
from bench.trial import Trial
from launch.hosts import Host
from launch.sweep import data_manifest, identity
from results.errors import StoreError
from results.record import Identity, RateRecord, parse_rate_record
from results.run_folder import RECORDS, saved_runs
from results.store import UnreadableLine, parsed_lines

# Assumed without an earlier record: the start of a job, and at most this long for its windows.
_START_SECONDS, _CPU_START_SECONDS, _WINDOWS_SECONDS = 20.0, 5.0, 40.0
_SIMULATED_SECONDS = 1.0
# Older runs take time to read, and the machine may have changed since.
_NEWEST_RUNS, _MOST_BYTES = 12, 4 << 20


@dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """A good run: its seconds, and those of its windows."""

    trial: Trial
    seconds: float
    window_seconds: float


@dataclass(frozen=True, kw_only=True)
class PointForecast:
    """A point: runs, runs already measured, expected seconds of one.

    assumed   whether the seconds are an assumption, because no record is like it
    """

    trial: Trial
    runs: int
    measured: int
    seconds: float
    assumed: bool

    @property
    def processes(self) -> int:
        """Number of processes of all runs: workers, servers and schedulers."""
        servers = self.trial.servers
        return self.runs * (self.trial.workers + servers + min(servers, 1))

    @property
    def seconds_left(self) -> float:
        """Seconds of all runs that are not measured yet."""
        return (self.runs - self.measured) * self.seconds


def forecast(
    trials: Sequence[Trial], repeats: int, done: Iterable[str], earlier: Sequence[EarlierRun]
) -> list[PointForecast]:
    """Return the forecast of each point.

    `done` has the point's key of each measured run.
    """
    keys = list(done)
    found = []
    for trial in trials:
        seconds = expected_seconds(trial, earlier)
        found.append(
            PointForecast(
                trial=trial,
                runs=repeats,
                measured=keys.count(trial.key),
                seconds=assumed_seconds(trial) if seconds is None else seconds,
                assumed=seconds is None,
            )
        )
    return found


def expected_seconds(trial: Trial, earlier: Sequence[EarlierRun]) -> float | None:
    """Return the seconds of a run by earlier runs; None without any.

    They are runs of its point, else of a similar point. A similar point has the same network,
    engine, mode and device kind, if possible the same kvstore. Its windows are scaled by their
    images per device.
    """
    same = [one.seconds for one in earlier if one.trial.key == trial.key]
    if same:
        return fmean(same)
    alike = [one for one in earlier if _kind(one.trial) == _kind(trial) and _work(one.trial)]
    if not alike or not _work(trial):
        return None

    def distance(one: EarlierRun) -> tuple[bool, float]:
        other = one.trial.layout
        ratio = other.devices / trial.layout.devices
        return other.kvstore != trial.layout.kvstore, abs(math.log(ratio))

    nearest = min(alike, key=distance)
    windows = nearest.window_seconds * _work(trial) / _work(nearest.trial)
    budget = trial.measuring.budget_seconds
    start = max(0.0, nearest.seconds - nearest.window_seconds)
    return start + (min(windows, budget) if budget else windows)


def _kind(trial: Trial) -> tuple[str, ...]:
    return trial.label, trial.engine, trial.mode, trial.layout.device, trial.training.dtype


def _work(trial: Trial) -> int:
    """Return the images per device of all windows; 0 for a trial that ends by epochs."""
    return trial.total_windows * trial.measuring.steps_per_window * trial.device_batch


def assumed_seconds(trial: Trial) -> float:
    """Return the assumed seconds of a run for which there is no record."""
    if trial.scripted:
        return _SIMULATED_SECONDS
    start = _CPU_START_SECONDS if trial.layout.device == "cpu" else _START_SECONDS
    return start + min(trial.measuring.budget_seconds or math.inf, _WINDOWS_SECONDS)


def earlier_runs(folder: Path, hosts: Iterable[str], own: Path | None = None) -> list[EarlierRun]:
    """Return the good runs on these hosts in the newest run folders.

    `own` is the run folder of the sweep, wherever it is.
    """
    names = set(hosts)
    newest = sorted(saved_runs(folder), key=_changed, reverse=True)[:_NEWEST_RUNS]
    newest += [own] if own is not None and own not in newest else []
    return [
        EarlierRun(trial=one.trial, seconds=one.elapsed_seconds, window_seconds=_windows(one))
        for run in newest
        for one in _records(run)
        if one.status == "ok" and one.elapsed_seconds > 0 and not one.imported
        if names.issuperset(one.identity.hosts)
    ]


def _changed(run: Path) -> float:
    with suppress(OSError):
        return (run / RECORDS).stat().st_mtime
    return 0.0


def _windows(record: RateRecord) -> float:
    return max((sum(rank.seconds) for rank in record.ranks), default=0.0)


def _records(run: Path) -> list[RateRecord]:
    """Return the records of a run; none if they are unreadable or very many."""
    log = run / RECORDS
    try:
        if log.stat().st_size > _MOST_BYTES:
            return []
        found = [one for _, one in parsed_lines(log, parse_rate_record)]
    except (OSError, StoreError):
        return []
    return [one for one in found if not isinstance(one, UnreadableLine)]


def measured_keys(
    folder: Path, trials: Sequence[Trial], repeats: int, hosts: Sequence[Host]
) -> list[str]:
    """Return the key of each run that a sweep with this folder would skip.

    The data of listed hosts are not compared, because that needs a connection.
    """
    newest = {one.identity: one.status for one in _records(folder)}
    done = {name for name, status in newest.items() if status == "ok"}
    if not done:
        return []
    return [one.key for one in planned_runs(done, trials, repeats, hosts) if one in done]


def planned_runs(
    known: Iterable[Identity], trials: Sequence[Trial], repeats: int, hosts: Sequence[Host]
) -> list[Identity]:
    """Return the identity of each run of a sweep, as in the `known` ones.

    Of listed hosts they can differ from those in the data.
    """
    here = hosts[0].login is None
    same = {_comparable(one, here): one for one in known}
    asked = [
        _comparable(identity(trial, n, hosts, data), here)
        for trial in trials
        for data in (_manifest(trial) if here else "",)
        for n in range(repeats)
    ]
    return [same.get(one, one) for one in asked]


def _comparable(name: Identity, with_data: bool) -> Identity:
    return name if with_data else replace(name, data_manifest="")


def _manifest(trial: Trial) -> str:
    with suppress(SpecError):  # the sweep reports it
        return data_manifest(trial)
    return ""
