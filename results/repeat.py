"""Summary of one record without the raw windows of its ranks; stragglers."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from statistics import NormalDist, fmean, stdev
from typing import Any, NamedTuple, overload

import numpy as np

from bench.notes import Note, NoteKind
from bench.settings.secrets import masked_text
from bench.statistics.confidence import Numbers, student
from bench.trial import Trial
from results.rates import (
    JobWindows,
    RateSamples,
    dropped_notes,
    job_windows,
    rate_samples,
    steady_state_notes,
)
from results.record import (
    Failure,
    Identity,
    RateRank,
    RateRecord,
    Validation,
    conditions,
    grouped,
    joined,
    notes_of,
)

# A rank slower by this fraction delays the whole job noticeably.
_LEAST_EXCESS = 0.05
_FALSE_ALARMS = 1e-3
_LEAST_PROBES = 3
_MOST_CELSIUS = 200.0
# Facts of ranks, in bytes.
HOST_MEMORY, DEVICE_MEMORY = "peak_memory_bytes", "peak_device_memory_bytes"


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A slow rank: its computation takes 1 + `excess` times the median of the others."""

    rank: int
    host: str
    excess: float


def stragglers(ranks: Sequence[RateRank]) -> list[Straggler]:
    """Return the ranks that are significantly slower by 5 % or more, slowest first.

    Compares only ranks with the same images per step, because time is not proportional to them.

    A probe's excess is the logarithm of a rank's seconds over the median of the other ranks' in the
    same probe, so a slowdown of all ranks cancels. The mean and the median of a rank's excesses
    must both reach 5 %, and the mean must exceed noise: fewer than one job in a thousand has a
    false alarm (Bonferroni over the ranks). Noise is the rank's standard deviation over the probes,
    or the median of all ranks' if that is larger.
    """
    alike = grouped((rank.images, rank) for rank in ranks)
    named = [slow for group in alike.values() for slow in _slow(group, len(ranks))]
    return sorted(named, key=lambda one: -one.excess)


def _slow(ranks: Sequence[RateRank], looked_at: int) -> list[Straggler]:
    probes = min((len(rank.own_seconds) for rank in ranks), default=0)
    if len(ranks) < 2 or probes < _LEAST_PROBES:
        return []
    logs = np.log(joined(rank.own_seconds[:probes] for rank in ranks).reshape(-1, probes))
    excess = logs - _median_of_others(logs)
    spread = excess.std(axis=1, ddof=1)
    noise = np.maximum(spread, np.median(spread)) / math.sqrt(probes)
    mean, middle = excess.mean(axis=1), np.median(excess, axis=1)
    beyond = NormalDist().inv_cdf(1 - _FALSE_ALARMS / looked_at) * noise
    slow = np.minimum(mean, middle) >= np.maximum(math.log1p(_LEAST_EXCESS), beyond)
    return [
        Straggler(rank=rank.rank, host=rank.host, excess=math.expm1(middle[n]))
        for n, rank in enumerate(ranks)
        if slow[n]
    ]


def _median_of_others(logs: Numbers) -> Numbers:
    """Return, per rank and probe (rows, columns), the median of the other ranks."""
    ordered = np.sort(logs, axis=0)
    place = np.argsort(np.argsort(logs, axis=0), axis=0)
    lower, upper = (len(logs) - 2) // 2, (len(logs) - 1) // 2
    columns = np.arange(logs.shape[1])
    # Without the rank's own value, later values move up by one.
    middle: Numbers = np.stack([ordered[n + (place <= n), columns] for n in (lower, upper)])
    return np.asarray(middle.mean(axis=0))


class RankSpeed(NamedTuple):
    """The speed of one rank in the counted windows.

    seconds      median of its windows
    own_seconds  median of its probes (forward and backward pass only); None without probes
    cpu_share    CPU seconds per second of its windows; None if not counted
    memory_bytes         peak host memory (resident set); None if not reported
    device_memory_bytes  peak memory of its fullest GPU; None without GPUs
    input_wait   seconds per step of waiting for images; None if not measured
    run_delay    seconds per step that its threads waited for a core; None if not measured
    """

    rank: int
    host: str
    process: str
    seconds: float
    own_seconds: float | None
    cpu_share: float | None
    memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    input_wait: float | None = None
    run_delay: float | None = None


# Fields of a RankSpeed with a text.
_TEXTS = ("host", "process")
_Column = Any  # an array, a tuple of texts, or None
_NO_RANKS: Mapping[str, Sequence[Any]] = dict.fromkeys(RankSpeed._fields, ())


class RankSpeeds(Sequence[RankSpeed]):
    """The speeds of a job's ranks, one array per field to save memory."""

    def __init__(self, columns: Mapping[str, Sequence[Any] | Numbers] = _NO_RANKS) -> None:
        """Keep the values of each field of a RankSpeed; NaN or None for missing ones."""
        self._length = len(columns["rank"])
        self._columns = [_column(name, columns[name]) for name in RankSpeed._fields]

    def __iter__(self) -> Iterator[RankSpeed]:
        """Yield the speed of each rank."""
        values = [_values(one, self._length) for one in self._columns]
        # As RankSpeed._make does, but without a call in Python for each of 100,000s of ranks.
        return map(partial(tuple.__new__, RankSpeed), zip(*values, strict=True))

    @overload
    def __getitem__(self, place: int) -> RankSpeed: ...
    @overload
    def __getitem__(self, place: slice) -> list[RankSpeed]: ...
    def __getitem__(self, place: int | slice) -> RankSpeed | list[RankSpeed]:
        """Return the speed of the rank at a place, or of those in a slice."""
        return list(self)[place]

    def __len__(self) -> int:
        """Return the number of ranks."""
        return self._length

    def __eq__(self, other: object) -> bool:
        """Return whether the other one has equal speeds."""
        return isinstance(other, RankSpeeds) and list(self) == list(other)

    def __hash__(self) -> int:
        """Return the hash of the speeds."""
        return hash(tuple(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Share names with other jobs: those from another process are copies."""
        columns = state["_columns"]
        shared = [_shared(one) if isinstance(one, tuple) else one for one in columns]
        vars(self).update(state | {"_columns": shared})


_LACKING = int(np.iinfo(np.int64).min)


def _column(name: str, values: Sequence[Any] | Numbers) -> _Column:
    """Return the values of a field; None if all are missing."""
    if name in _TEXTS:
        return _shared(tuple(values))
    if isinstance(values, np.ndarray):
        return None if np.isnan(values).all() else values
    if all(one is None for one in values):
        return None
    return np.array([_LACKING if one is None else one for one in values], np.int64)


def _values(column: _Column, length: int) -> Sequence[Any]:
    """Return the values of a field as they were given."""
    if column is None or isinstance(column, tuple):
        return column or (None,) * length
    values, gone = column.tolist(), np.isnan(column) | (column == _LACKING)
    if not gone.any():
        return list(values)
    return [None if lacks else one for one, lacks in zip(values, gone, strict=True)]


@lru_cache(maxsize=64)
def _shared(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first of equal lists of names."""
    return names


@dataclass(frozen=True, kw_only=True)
class RepeatSummary:
    """A record as tables and pages need it; without samples and rank speeds if not ok.

    source      "" if mxscale measured it, else the source of the figures
    windows     (seconds, images) of each window of the whole job, warm-up included
    dropped     number of excluded windows at the start
    samples     input of its throughput
    notes       facts and caveats about its result
    conditions  variables and instructions it ran with
    commands    command lines by process
    machines    counters of each host at the beginning and the end of measuring
    facts       facts that its first rank reported
    peak_memory_bytes  of the rank that used most memory, if any rank reported it
    peak_device_memory_bytes  the same of GPUs
    gpu_utilization  mean share of time that the GPUs were busy, if all hosts of workers report it
    gpu_temperature  highest of all GPUs in °C, likewise
    gpu_clock        lowest SM clock of all GPUs as a share of its maximum, likewise
    validations  those during training, in order
    """

    trial: Trial
    identity: Identity
    status: str
    message: str
    emulated: bool
    started: str
    elapsed_seconds: float
    accuracy: float | None
    source: str = ""
    windows: tuple[tuple[float, int], ...] = ()
    dropped: int = 0
    samples: RateSamples | None = None
    notes: tuple[Note, ...] = ()
    failure: Failure | None = None
    conditions: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    machines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    rank_speeds: Sequence[RankSpeed] = RankSpeeds()
    peak_memory_bytes: int | None = None
    peak_device_memory_bytes: int | None = None
    gpu_utilization: float | None = None
    gpu_temperature: float | None = None
    gpu_clock: float | None = None
    validations: tuple[Validation, ...] = ()

    @property
    def reached(self) -> Validation | None:
        """The validation that exceeded the stop accuracy and ended training, if one did."""
        target = self.trial.data.stop_accuracy
        last = self.validations[-1] if self.validations and target < 1 else None
        return last if last and self.status == "ok" and last.accuracy > target else None

    @property
    def missed(self) -> Validation | None:
        """The last validation of training that did not reach the stop accuracy."""
        has_target = self.trial.data.stop_accuracy < 1 and self.validations
        return self.validations[-1] if has_target and not self.reached else None

    @property
    def unsteady(self) -> bool:
        """Whether its windows have no steady state.

        A drift counts only if the trial has a target precision. An unconfirmed level counts only if
        the trial has a number of windows, which training to an accuracy does not have.
        """
        kinds = {note.kind for note in self.notes}
        drifts = self.trial.measuring.precision > 0 and NoteKind.DRIFT in kinds
        return drifts or (self.trial.measuring.windows > 0 and NoteKind.NOT_STEADY in kinds)

    @property
    def steady_windows(self) -> tuple[tuple[float, int], ...]:
        """Its counted windows."""
        return self.windows[self.dropped :]


# Fields copied from the record.
_COPIED = (
    *("trial", "identity", "status", "emulated", "started", "elapsed_seconds", "accuracy"),
    *("source", "machines", "failure", "validations"),
)


@dataclass(frozen=True, kw_only=True)
class TimeToAccuracy:
    """Seconds and epochs of a point's repeats until they exceeded its stop accuracy.

    target   the stop accuracy, fraction
    reached  the validation that ended each repeat that reached it
    repeats  number of repeats with times, or without a result
    """

    target: float
    reached: tuple[Validation, ...]
    repeats: int

    @property
    def seconds(self) -> float | None:
        """Mean of the repeats that reached it."""
        return fmean(one.seconds for one in self.reached) if self.reached else None

    @property
    def epochs(self) -> float | None:
        """Mean of the repeats that reached it."""
        return fmean(one.epochs for one in self.reached) if self.reached else None

    @property
    def half_width(self) -> float | None:
        """Half-width in seconds of the mean's 95 % CI (Student's t), if n > 1."""
        count = len(self.reached)
        if count < 2:
            return None
        scatter = stdev(one.seconds for one in self.reached)
        return student(count - 1) * scatter / math.sqrt(count)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the 95 % CI in seconds."""
        mean, half = self.seconds, self.half_width
        return None if mean is None or half is None else (max(mean - half, 0.0), mean + half)


def time_to_accuracy(repeats: Sequence[RepeatSummary]) -> TimeToAccuracy | None:
    """Return the time to the stop accuracy; None without one or its times."""
    timed = [one for one in repeats if one.validations or one.status != "ok"]
    target = repeats[0].trial.data.stop_accuracy if repeats else 1.0
    if target >= 1 or not any(one.validations for one in timed):
        return None
    reached = tuple(one.reached for one in timed if one.reached)
    return TimeToAccuracy(target=target, reached=reached, repeats=len(timed))


def _masked(commands: dict[str, str]) -> dict[str, str]:
    """Mask secrets in commands; equal ones once, as most of a large job are."""
    texts = {text: masked_text(text) for text in set(commands.values())}
    return {name: texts[text] for name, text in commands.items()}


def summarize(record: RateRecord) -> RepeatSummary:
    """Summarize a record."""
    found = RepeatSummary(
        **{name: getattr(record, name) for name in _COPIED},
        message=record.message if record.status != "ok" else "",
        commands=_masked(record.commands),
        conditions=conditions(record),
        facts=record.ranks[0].facts if record.ranks else {},
        peak_memory_bytes=_peak(record.ranks, HOST_MEMORY),
        peak_device_memory_bytes=_peak(record.ranks, DEVICE_MEMORY),
    )
    if record.status != "ok":
        return found
    job = job_windows(record)
    return replace(
        found,
        windows=job.each,
        dropped=job.found.dropped,
        samples=rate_samples(record, job),
        notes=(
            *_origin(record),
            *_noted(record),
            *(
                Note(
                    NoteKind.SLOW_RANK, {"excess": one.excess}, {"rank": one.rank, "host": one.host}
                )
                for one in stragglers(record.ranks)
            ),
            *dropped_notes(record.trial, job),
            *steady_state_notes(record.trial, job),
        ),
        rank_speeds=rank_speeds(record.ranks, job, record.trial),
        gpu_utilization=_of_gpus(record, "utilization", fmean),
        gpu_temperature=_of_gpus(record, "temperature", max),
        gpu_clock=_of_gpus(record, "clock", min),
    )


def _origin(record: RateRecord) -> list[Note]:
    """Return the note on figures that mxscale has not measured."""
    kind = NoteKind.REPORTED if record.trial.reported else NoteKind.NOT_OURS
    return [Note(kind, {"source": record.source})] if record.source else []


def _of_gpus(record: RateRecord, name: str, pick: Callable[[list[float]], float]) -> float | None:
    """Return a figure of the GPUs over the workers' hosts; None if a host lacks it."""
    hosts = {rank.host for rank in record.ranks}
    found = [_gpu_figure(record.machines.get(host, ()), name) for host in hosts]
    known = [one for one in found if one is not None]
    return pick(known) if known and len(known) == len(found) else None


def _gpu_figure(counters: Sequence[dict[str, Any]], name: str) -> float | None:
    """Return a figure of the GPUs by a host's counters; None also for a damaged value."""
    last = counters[-1] if counters else None
    use = last.get("gpus") if isinstance(last, dict) else None
    value = use.get(name) if isinstance(use, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= (_MOST_CELSIUS if name == "temperature" else 1) else None


def _bytes(rank: RateRank, name: str) -> int | None:
    value = rank.facts.get(name)
    return value if type(value) is int and value > 0 else None


def _peak(ranks: Sequence[RateRank], name: str) -> int | None:
    return max((one for rank in ranks if (one := _bytes(rank, name))), default=None)


def _noted(record: RateRecord) -> list[Note]:
    """Return the record's notes; on one host without those on network traffic."""
    alone = record.trial.hosts < 2
    return [
        note for note in notes_of(record) if not alone or note.kind is not NoteKind.LITTLE_COMPUTING
    ]


def _medians(rows: Numbers) -> Numbers:
    """Return the median of each row; np.median takes five times as long."""
    ordered, count = np.sort(rows, axis=1), rows.shape[1]
    middles: Numbers = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2
    return middles


def _figures(
    series: Sequence[Sequence[float]], least: int, figure: Callable[[Numbers], Numbers]
) -> Numbers:
    """Return a figure of each series; NaN for those of fewer than `least` values.

    All series of one length are computed at once.
    """
    found = np.full(len(series), math.nan)
    for length, places in grouped((len(one), n) for n, one in enumerate(series)).items():
        if length >= least:
            found[places] = figure(joined(series[n] for n in places).reshape(-1, length))
    return found


def rank_speeds(ranks: Sequence[RateRank], job: JobWindows, trial: Trial) -> RankSpeeds:
    """Return the speed of each rank in the job's counted windows, ordered by rank."""
    order = sorted(range(len(ranks)), key=lambda place: ranks[place].rank)
    ranks = [ranks[place] for place in order]
    first, end = job.found.dropped, len(job.each)
    seconds = job.seconds[order, first:]
    steps = sum(images for _, images in job.counting) / trial.global_batch

    def total(series: Sequence[Sequence[float]]) -> Numbers:
        return _figures(series, end, lambda rows: rows[:, first:end].sum(axis=1))

    return RankSpeeds(
        {
            "rank": [one.rank for one in ranks],
            "host": [one.host for one in ranks],
            "process": [one.process for one in ranks],
            "seconds": _medians(seconds),
            "own_seconds": _figures([one.own_seconds for one in ranks], 1, _medians),
            "cpu_share": total([one.cpu_seconds for one in ranks]) / seconds.sum(axis=1),
            "memory_bytes": [_bytes(one, HOST_MEMORY) for one in ranks],
            "device_memory_bytes": [_bytes(one, DEVICE_MEMORY) for one in ranks],
            "input_wait": total([one.input_wait for one in ranks]) / steps,
            "run_delay": total([one.run_delay for one in ranks]) / steps,
        }
    )
