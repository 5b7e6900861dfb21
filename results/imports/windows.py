"""Windows of a log's workers, with plausibility checks of their times."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median

from bench.errors import SpecError, error_line
from bench.logs.log import Format, Log, Stretch, with_steps
from bench.notes import Note, NoteKind
from bench.trial import Trial
from results.rates import ROUNDING, dropped_notes, job_windows, steady_state_notes
from results.record import Rank, Record, grouped

_DIGITS, _MOST_DIGITS = re.compile("[0-9]+"), 300
Workers = dict[str, list[Stretch]]


def workers(logs: Mapping[str, Log], format_: Format, asked: int) -> Workers:
    """Return the intervals of each worker, by name.

    logs: by file. asked: expected number of workers. If throughput is of the whole job, only the
    first printing worker counts. Raises SpecError if lines cannot be assigned to workers.
    """
    found: Workers = {}
    for name, log in logs.items():
        for worker, stretches in _of_file(name, log, asked, len(logs) > 1).items():
            if worker in found:
                raise SpecError(
                    error_line(name, problem=f"worker {worker} is also in another file")
                )
            found[worker] = stretches
    ordered = sorted(found, key=_number)
    if format_.of != "workers":
        ordered = ordered[:1]
    for worker in ordered:
        _check_once(worker, found[worker], logs)
    return {worker: with_steps(found[worker], format_.warmup) for worker in ordered}


def _number(worker: str) -> tuple[int, str]:
    digits = "".join(_DIGITS.findall(Path(worker.rpartition(" ")[2]).name))
    return int(digits[-_MOST_DIGITS:] or 0), worker


def _of_file(name: str, log: Log, asked: int, several: bool) -> Workers:
    found = grouped((one.worker, one) for one in log.stretches)
    unnamed = found.pop("", [])
    parts = _unmixed(unnamed, asked)
    _check_no_copies(name, parts)
    _check_mixed(name, parts)
    if found and parts:
        problem = "some lines name their worker, others do not"
        raise SpecError(error_line(name, problem=problem, fix="Keep only one kind of line"))
    if several and len(parts) == 1:
        return {name: parts[0]}
    return found | {str(number): part for number, part in enumerate(parts)}


def _unmixed(stretches: Sequence[Stretch], asked: int) -> list[list[Stretch]]:
    """Assign unnamed lines to `asked` workers: a place's nth line is the nth's.

    The assignment may differ between places; the job's throughput does not depend on it. With
    one worker, all lines are its own.
    """
    if asked <= 1:
        return [list(stretches)] if stretches else []
    parts: list[list[Stretch]] = []
    seen: dict[tuple[int, ...], int] = {}
    for one in stretches:
        nth = seen.get(one.place, 0)
        seen[one.place] = nth + 1
        if nth == len(parts):
            parts.append([])
        parts[nth].append(one)
    return parts


def _check_once(worker: str, stretches: Sequence[Stretch], logs: Mapping[str, Log]) -> None:
    for before, after in pairwise(stretches):
        if after.place <= before.place:
            words = ("epoch", "batch")[: len(after.place)] if len(after.place) > 1 else ("step",)
            place = " ".join(f"{w} {n}" for w, n in zip(words, after.place, strict=True))
            raise SpecError(
                error_line(
                    f"{', '.join(logs)}:{after.line}",
                    problem=f"{place} is repeated or out of order",
                    fix="Cut the log into one file per run, or, if N workers print to this file, "
                    "add --workers N",
                )
            )


def _check_no_copies(name: str, parts: Sequence[Sequence[Stretch]]) -> None:
    """Raise SpecError if two workers have the same varying throughput on every line."""
    speeds = [[(one.place, one.rate, one.seconds) for one in part] for part in parts]
    for first, second in pairwise(speeds):
        varied = len({one[1:] for one in first}) > 1
        if varied and first == second:
            problem = f"{len(parts)} workers have the same throughput on every line, so the "
            problem += "lines are copies"
            fix = "Give each line once, without --workers"
            raise SpecError(error_line(name, problem=problem, fix=fix))


def _check_mixed(name: str, parts: Sequence[Sequence[Stretch]]) -> None:
    """Raise SpecError if workers' lines are not interleaved, as with a validation."""
    for first, second in pairwise(parts):
        # The numbers of each worker's lines, by epoch.
        ends, begins = (grouped((o.place[:-1], o.line) for o in part) for part in (first, second))
        both = [epoch for epoch in begins if len(ends.get(epoch, [])) > 1 < len(begins[epoch])]
        if both and all(max(ends[epoch]) < min(begins[epoch]) for epoch in both):
            line = min(begins[both[0]])
            raise SpecError(
                error_line(
                    f"{name}:{line}",
                    expected=f"interleaved lines of {len(parts)} workers",
                    got="one worker after the other, as from another run or a validation",
                    fix="Cut the log into one file per run and worker",
                )
            )


def common_stretches(found: Workers, asynchronous: bool) -> Workers:
    """Keep the intervals that every worker printed, if workers are synchronous."""
    if asynchronous or len(found) == 1:
        return found
    common = set.intersection(*({one.place for one in part} for part in found.values()))
    return {worker: [one for one in part if one.place in common] for worker, part in found.items()}


def ranks(found: Workers, trial: Trial, format_: Format, shares: int) -> tuple[Rank, ...]:
    """Return the ranks with raw windows; `shares`: processes that print throughput."""
    own = {
        "workers": trial.worker_batch,
        "one-worker": trial.worker_batch,
        "one-device": trial.device_batch,
        "job": trial.global_batch / shares,
    }[format_.of]
    counted = trial.worker_batch if format_.of == "workers" else trial.global_batch
    # If every line has a time, intervals end there; else each one follows the previous one.
    times = [[math.nan if one.at is None else one.at for one in part] for part in found.values()]
    timed = all(a < b for part in times for a, b in pairwise([-math.inf, *part]))
    made = []
    for number, (worker, part) in enumerate(found.items()):
        seconds = tuple(one.seconds or one.steps * own / one.rate for one in part)
        made.append(
            Rank(
                rank=number,
                host=worker.partition(" ")[0] if " worker " in worker else "unknown",
                process=f"worker-{number}",
                seconds=seconds,
                ends=tuple(one.at or 0.0 for one in part) if timed else tuple(accumulate(seconds)),
                images=tuple(one.images or one.steps * counted for one in part),
                facts={ROUNDING: max(one.rounding for one in part)} if part else {},
            )
        )
    return tuple(made)


def discarded_notes(record: Record) -> list[Note]:
    """Return the notes on windows excluded besides the warm-up."""
    job = job_windows(record)
    return [*dropped_notes(record.trial, job), *steady_state_notes(record.trial, job)]


# Some logs print times in whole seconds, and an epoch's time includes other work.
_APART, _EPOCH_APART = 1.2, 2.0
_LEAST = 3


def clock(found: Workers, ranks: Sequence[Rank], logs: Mapping[str, Log]) -> Note:
    """Check the throughput against the times printed in the log; return the note.

    MXNet's Speedometer reads its clock when it is called. If nothing makes the script wait for
    the devices (for example, without a metric), it measures how fast batches are queued.
    """
    lines = list(_by_lines(found, ranks))
    if len(lines) >= _LEAST:
        times = median(lines)
        if 1 / _APART < times < _APART:
            return Note(NoteKind.LOG_TIMES_AGREE)
        return _contradiction("lines", times)
    epochs = list(_by_epochs(found, ranks, logs))
    if epochs and median(epochs) > _EPOCH_APART:
        return _contradiction("epochs", median(epochs))
    return Note(NoteKind.LOG_TIMES_UNKNOWN)


def images_per_step(found: Workers) -> float:
    """Return the images per step by the times on the lines; 0 if unknown."""
    steps = [time * after.rate for part in found.values() for after, time in _step_times(part)]
    return median(steps) if len(steps) >= _LEAST else 0.0


def _step_times(part: Sequence[Stretch]) -> Iterator[tuple[Stretch, float]]:
    """Yield intervals with their seconds per step since the previous line."""
    for before, after in pairwise(part):
        if before.at is None or after.at is None or before.place[:-1] != after.place[:-1]:
            continue
        yield after, (after.at - before.at) / (after.place[-1] - before.place[-1])


def near(one: float, other: float) -> bool:
    """Return whether two values are equal within the precision of the clock."""
    return one > 0 and other > 0 and 1 / _APART < one / other < _APART


def _contradiction(clock: str, factor: float) -> Note:
    return Note(NoteKind.LOG_DOUBTFUL, {"clock": clock, "factor": factor})


def _by_lines(found: Workers, ranks: Sequence[Rank]) -> Iterator[float]:
    """Yield seconds per step between two lines, relative to the second line's rate."""
    for part, rank in zip(found.values(), ranks, strict=True):
        spent = {one.place: seconds for one, seconds in zip(part, rank.seconds, strict=True)}
        for after, time in _step_times(part):
            if after.steps:
                yield time / (spent[after.place] / after.steps)


def _by_epochs(found: Workers, ranks: Sequence[Rank], logs: Mapping[str, Log]) -> Iterator[float]:
    """Yield an epoch's seconds relative to its batches', plus one unprinted interval."""
    costs = grouped(one for log in logs.values() for one in log.epochs)
    for part, rank in zip(found.values(), ranks, strict=True):
        known = grouped((o[0].place[0], o) for o in zip(part, rank.seconds, strict=True))
        for epoch in known.keys() & costs.keys():
            stretches, last = known[epoch], known[epoch][-1][0]
            each = sum(time for _, time in stretches) / sum(one.steps for one, _ in stretches)
            yield median(costs[epoch]) / (each * (last.place[-1] + last.steps))
