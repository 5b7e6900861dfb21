"""The windows of a log's workers: who measured each, how long it took, and if that can be true."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median

from bench.errors import SpecError
from bench.notes import Note, NoteKind
from bench.trial import Trial
from results.imports.log import Format, Log, Stretch, with_steps
from results.rates import ROUNDING
from results.record import Rank, Record, grouped
from results.windows import dropped_notes, job_windows, steady_state_notes

_DIGITS, _MOST_DIGITS = re.compile("[0-9]+"), 300
Workers = dict[str, list[Stretch]]


def workers(logs: Mapping[str, Log], format_: Format, asked: int) -> Workers:
    """The stretches of each worker, by its name; `logs` are by file, `asked` workers are to be.

    Where speeds are of the whole job, those of the first who says any. Raises SpecError where it
    cannot be told who is who.
    """
    found: Workers = {}
    for name, log in logs.items():
        for worker, stretches in _of_file(name, log, asked, len(logs) > 1).items():
            if worker in found:
                raise SpecError(f"{name}: worker {worker} is in another of the files too")
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
        raise SpecError(
            f"{name}: some lines name their worker, others do not; take one or the other"
        )
    if several and len(parts) == 1:
        return {name: parts[0]}
    return found | {str(number): part for number, part in enumerate(parts)}


def _unmixed(stretches: Sequence[Stretch], asked: int) -> list[list[Stretch]]:
    """Lines of as many workers as are asked for, the nth to say a place being the nth worker's.

    Who is who may change from line to line; the job's rate does not depend on it. All are one's
    where one is asked for.
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
            what = " ".join(f"{w} {n}" for w, n in zip(words, after.place, strict=True))
            raise SpecError(
                f"{', '.join(logs)}:{after.line}: {what} comes again or too late. Cut the log into "
                f"one file per run, or add --workers N if N workers mix their lines in it"
            )


def _check_no_copies(name: str, parts: Sequence[Sequence[Stretch]]) -> None:
    """Raises SpecError if workers agree in every digit of speeds that vary: they are one."""
    speeds = [[(one.place, one.rate, one.seconds) for one in part] for part in parts]
    for first, second in pairwise(speeds):
        varied = len({one[1:] for one in first}) > 1
        if varied and first == second:
            raise SpecError(
                f"{name}: {len(parts)} workers would have the same speed in every line, so the "
                f"lines are copies. Give each line once, without --workers"
            )


def _check_mixed(name: str, parts: Sequence[Sequence[Stretch]]) -> None:
    """Raises SpecError if no epoch has lines of two workers mixed: one may be of a validation."""
    for first, second in pairwise(parts):
        # The numbers of each worker's lines, by epoch.
        ends, begins = (grouped((o.place[:-1], o.line) for o in part) for part in (first, second))
        both = [epoch for epoch in begins if len(ends.get(epoch, [])) > 1 < len(begins[epoch])]
        if both and all(max(ends[epoch]) < min(begins[epoch]) for epoch in both):
            line = min(begins[both[0]])
            raise SpecError(
                f"{name}:{line}: expected the lines of {len(parts)} workers mixed, got them one "
                f"worker after the other, as of another run or of a validation. Cut the log into "
                f"one file per run and worker"
            )


def common_stretches(found: Workers, asynchronous: bool) -> Workers:
    """Without the stretches that not every worker tells of, where workers go alike."""
    if asynchronous or len(found) == 1:
        return found
    common = set.intersection(*({one.place for one in part} for part in found.values()))
    return {worker: [one for one in part if one.place in common] for worker, part in found.items()}


def ranks(found: Workers, trial: Trial, format_: Format, shares: int) -> tuple[Rank, ...]:
    """The ranks with their raw windows; `shares` processes each print the speed of their images."""
    own = {
        "workers": trial.worker_batch,
        "one-worker": trial.worker_batch,
        "one-device": trial.device_batch,
        "job": trial.global_batch / shares,
    }[format_.of]
    counted = trial.worker_batch if format_.of == "workers" else trial.global_batch
    # Whether the times on the lines tell when each stretch ended; else one follows the other.
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
    """Which of its windows do not count besides the warm-up, and what that changes."""
    job = job_windows(record)
    return [*dropped_notes(record.trial, job), *steady_state_notes(record.trial, job)]


# Times of lines are whole seconds in some logs, and an epoch's time holds what is no training.
_APART, _EPOCH_APART = 1.2, 2.0
_LEAST = 3


def clock(found: Workers, ranks: Sequence[Rank], logs: Mapping[str, Log]) -> Note:
    """Whether the speeds can be true.

    MXNet's Speedometer reads its clock when it is called: where nothing makes the script wait for
    the devices, as where it has no metric, it tells how fast batches are handed out.
    """
    lines = list(_by_lines(found, ranks))
    if len(lines) >= _LEAST:
        times = median(lines)
        if 1 / _APART < times < _APART:
            return Note(NoteKind.LOG_TIMES_AGREE)
        return _doubtful("lines", times)
    epochs = list(_by_epochs(found, ranks, logs))
    if epochs and median(epochs) > _EPOCH_APART:
        return _doubtful("epochs", median(epochs))
    return Note(NoteKind.LOG_TIMES_UNKNOWN)


def images_per_step(found: Workers) -> float:
    """Of what a speed counts, by the times on the lines; 0 if they do not say."""
    steps = [time * after.rate for part in found.values() for after, time in _step_times(part)]
    return median(steps) if len(steps) >= _LEAST else 0.0


def _step_times(part: Sequence[Stretch]) -> Iterator[tuple[Stretch, float]]:
    """Each stretch with the seconds per step since the line before it, if both have a time."""
    for before, after in pairwise(part):
        if before.at is None or after.at is None or before.place[:-1] != after.place[:-1]:
            continue
        yield after, (after.at - before.at) / (after.place[-1] - before.place[-1])


def near(one: float, other: float) -> bool:
    """Whether the clock cannot tell them apart."""
    return one > 0 and other > 0 and 1 / _APART < one / other < _APART


def _doubtful(what: str, factor: float) -> Note:
    return Note(NoteKind.LOG_DOUBTFUL, {"clock": what, "factor": factor})


def _by_lines(found: Workers, ranks: Sequence[Rank]) -> Iterator[float]:
    """The seconds a step between two lines over those that the second line tells."""
    for part, rank in zip(found.values(), ranks, strict=True):
        spent = {one.place: seconds for one, seconds in zip(part, rank.seconds, strict=True)}
        for after, time in _step_times(part):
            if after.steps:
                yield time / (spent[after.place] / after.steps)


def _by_epochs(found: Workers, ranks: Sequence[Rank], logs: Mapping[str, Log]) -> Iterator[float]:
    """An epoch's seconds over those of its batches, with a stretch more that no line tells of."""
    costs = grouped(one for log in logs.values() for one in log.epochs)
    for part, rank in zip(found.values(), ranks, strict=True):
        told = grouped((o[0].place[0], o) for o in zip(part, rank.seconds, strict=True))
        for epoch in told.keys() & costs.keys():
            stretches, last = told[epoch], told[epoch][-1][0]
            each = sum(time for _, time in stretches) / sum(one.steps for one, _ in stretches)
            yield median(costs[epoch]) / (each * (last.place[-1] + last.steps))
