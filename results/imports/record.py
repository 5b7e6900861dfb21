"""Records made from logs of other tools."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.errors import SpecError, error_line, quoted
from bench.logs import formats
from bench.logs.arguments import HOROVOD
from bench.logs.log import SPEEDS_OF, Format, Log
from bench.notes import Note, NoteKind, texts
from bench.trial import Trial
from results.imports import windows
from results.imports.point import LogDescription, assumed_facts, trial
from results.rates import ROUNDING, WHOLE_JOB, rate
from results.record import Identity, Rank, Record, emit, parse

# The relative rounding of throughput that gets a note.
_COARSE = 0.001
# A log that prints throughput for a smaller share of its steps is a sample.
_SAMPLE = 0.5
# Settings of one file, which may differ between the files of a job.
_OF_A_FILE = {"elapsed_seconds", "also_network", "sixteen", "ratio"}


@dataclass(frozen=True, kw_only=True)
class ImportedRecord:
    """A record, its log files, and the total they print (images/s; 0.0 if none)."""

    record: Record
    paths: tuple[Path, ...]
    format: Format
    total: float = 0.0


def import_logs(paths: Sequence[Path], asked: LogDescription, name: str = "auto") -> ImportedRecord:
    """Read the logs of one job as a record of its first repeat.

    Raises SpecError if the logs have no throughput, or logs and `asked` do not define the point.
    """
    format_, logs = _read(paths, name, asked.speeds_of)
    where, stated = str(paths[0]), _stated(logs)
    found = windows.workers(logs, format_, asked.workers or asked.hosts or stated.get("hosts", 0))
    point = trial(where, asked, stated, format_, len(found))
    whose = format_ if asked.speeds_of else _whose(where, found, point, format_)
    if whose.of != "workers":
        found = dict([next(iter(found.items()))])
    _check_job(where, len(found), stated, point, whose)
    kept = windows.common_stretches(found, point.asynchronous)
    shares = 1 if asked.speeds_of else stated.get("shares", 1) or point.workers
    ranks = windows.ranks(kept, point, whose, shares)
    _check_enough(where, ranks, point)
    own = 0.0 if whose.of == "one-worker" else sum(log.total for log in logs.values())
    finished = list(_finished(stated, kept, point))
    notes = _once(
        windows.clock(kept, ranks, logs),
        *([Note(NoteKind.LOG_OWN_TOTAL, {"rate": own})] if own > 0 else []),
        *finished,
        *(note for log in logs.values() for note in log.notes),
        *_speeds(format_, whose, point, ranks, list(assumed_facts(asked, stated, point))),
        *_counted(logs, sum(map(len, found.values())) - sum(map(len, kept.values()))),
    )
    record = Record(
        trial=point,
        identity=_identity(point, paths),
        status="ok",
        message="; ".join(texts(notes)),
        notes=notes,
        ranks=ranks,
        emulated=False,
        started=_started(kept),
        elapsed_seconds=max(sum(rank.seconds) for rank in ranks),
        accuracy=next((log.accuracy for log in logs.values() if log.accuracy is not None), None),
        source=f"imported from {_files(paths)} ({format_.name})",
    )
    if asked.warmup is None:
        record = _by_total(record, stated, kept, paths)
    _check_stored(where, record)
    total = own or sum(note.figures["rate"] for note in finished)
    return ImportedRecord(record=record, paths=tuple(paths), format=whose, total=total)


def _whose(where: str, found: windows.Workers, point: Trial, format_: Format) -> Format:
    """Return the format, with `of` corrected by the times in the log.

    With Horovod, one rank prints throughput, usually that of the whole job. The times on the
    lines show which it is; raises SpecError if they are required and missing.
    """
    several = point.layout.kvstore == HOROVOD and point.workers > 1
    if format_.of != "workers" or not several:
        return format_
    counted = windows.images_per_step(found)
    if windows.near(counted, point.global_batch):
        return replace(format_, of="job")
    if windows.near(counted, point.worker_batch):
        return format_ if len(found) == point.workers else replace(format_, of="one-worker")
    if len(found) == 1:
        return replace(format_, of="job")
    raise SpecError(
        error_line(
            where,
            problem=f"{len(found)} of {point.workers} ranks print throughput, and the log does not "
            f"show whether it is their own or the job's",
            fix="Add --speeds-of workers or --speeds-of job",
        )
    )


def _files(paths: Sequence[Path]) -> str:
    return f"{paths[0].name} and {len(paths) - 1} more" if len(paths) > 1 else paths[0].name


def _identity(point: Trial, paths: Sequence[Path]) -> Identity:
    """Return the first repeat's identity; a digest of the logs replaces the code hash."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return Identity(
        name=point.name,
        key=point.key,
        repeat=0,
        code_hash=whole.hexdigest()[:12],
        data_manifest="",
        hosts=(),
    )


def _check_stored(where: str, record: Record) -> None:
    """Raise SpecError for a record that the store could not read again."""
    try:
        parse(emit(record))
    except (SpecError, ValueError) as error:
        raise SpecError(error_line(where, problem=f"not a valid point: {error}")) from error


def _check_job(
    where: str, found: int, stated: Mapping[str, Any], point: Trial, format_: Format
) -> None:
    """Raise SpecError if the log's throughput and total do not fit the workers.

    The total may be that of `shares` processes with one device each.
    """
    shares, ratio = stated.get("shares", 1), stated.get("ratio", 0.0)
    if format_.of == "workers" and found != point.workers:
        raise SpecError(
            error_line(
                where,
                expected=f"throughput of {point.workers} workers",
                got=f"that of {found}",
                fix="Give the logs of all workers, correct --workers, or add --speeds-of "
                "one-worker or --speeds-of job",
            )
        )

    if shares > point.layout.devices:
        raise SpecError(
            error_line(
                where,
                expected=f"{shares} devices or more, because the printed total is {shares} times "
                f"the printing process's throughput",
                got=point.layout.devices,
                fix="Check --devices",
            )
        )

    if ratio and not 0.75 < ratio / point.workers < 1.33:
        raise SpecError(
            error_line(
                where,
                expected=f"about {ratio:.3g} workers, because the printed total is {ratio:.3g} "
                f"times the printing worker's throughput",
                got=f"{point.workers} workers ({point.layout.devices} devices)",
                fix="Check --devices",
            )
        )


def _read(paths: Sequence[Path], name: str, speeds_of: str) -> tuple[Format, dict[str, Log]]:
    if speeds_of and speeds_of not in SPEEDS_OF:
        expected = f"one of {', '.join(SPEEDS_OF)}"
        raise SpecError(error_line("--speeds-of", expected=expected, got=quoted(speeds_of)))
    logs: dict[str, Log] = {}
    for path in paths:
        if str(path) in logs:
            raise SpecError(error_line(path, expected="each log once", got="it twice"))
        format_, logs[str(path)] = formats.read_log(path, name)
        name = format_.name
    format_ = replace(format_, of=speeds_of or format_.of)
    if format_.of != "workers" and len(logs) > 1:
        raise SpecError(
            error_line(
                ", ".join(logs),
                expected=f"one log, because each log of {format_.title} is a whole job",
                got=len(logs),
                fix="Import them one by one; each becomes a point or a repeat",
            )
        )
    return format_, logs


def _stated(logs: Mapping[str, Log]) -> dict[str, Any]:
    """Return the settings of the logs; raise SpecError if they differ."""
    stated: dict[str, Any] = {}
    for name, log in logs.items():
        for key, value in log.stated.items():
            if stated.setdefault(key, value) != value and key not in _OF_A_FILE:
                raise SpecError(
                    error_line(
                        f"{name}: {key.replace('_', ' ')}",
                        expected=f"{stated[key]}, as in another file",
                        got=value,
                        fix="Import only files of one job together",
                    )
                )
    return stated


def _check_enough(where: str, ranks: Sequence[Rank], point: Trial) -> None:
    least = min((len(rank.seconds) for rank in ranks), default=0)
    if least == 0:
        expected = "intervals that all workers print"
        raise SpecError(error_line(where, expected=expected, got="none"))
    if least <= point.measuring.warmup_windows:
        warmup = point.measuring.warmup_windows
        raise SpecError(
            error_line(
                where,
                expected=f"more intervals per worker than the warm-up's {warmup}",
                got=least,
                fix="To count them all, add --warmup 0",
            )
        )
    for rank in ranks:
        if min(rank.images) < 1:
            raise SpecError(error_line(where, expected="images in each interval", got="none"))


def _counted(logs: Mapping[str, Log], left: int) -> Iterator[Note]:
    used = sum(len(log.stretches) for log in logs.values())
    yield Note(NoteKind.LOG_LINES, {"used": used, "lines": sum(log.lines for log in logs.values())})
    if spoilt := [(name, one) for name, log in logs.items() for one in log.spoilt]:
        first = f"{Path(spoilt[0][0]).name}:{spoilt[0][1]}"
        yield Note(NoteKind.LOG_SPOILT, {"count": len(spoilt), "first": first})
    if left:
        yield Note(NoteKind.LOG_LEFT_OUT, {"count": left})


def _once(*notes: Note) -> tuple[Note, ...]:
    """Return each note once; those that a report's summary lists come first."""
    found = {repr(note): note for note in notes}.values()
    return tuple(sorted(found, key=lambda note: not note.kind.headline))


def _finished(stated: Mapping[str, Any], found: windows.Workers, point: Trial) -> Iterator[Note]:
    """Yield the whole job's throughput by its own printed time."""
    seconds = stated.get("elapsed_seconds", 0.0)
    if seconds > 0:
        steps = stated.get("steps", 0) or next(iter(found.values()))[-1].place[-1]
        figures = {
            "steps": steps,
            "seconds": seconds,
            "rate": steps * point.global_batch / seconds,
        }
        yield Note(NoteKind.LOG_TOTAL, figures | {"epochs": stated.get("epochs", 0)})


def _by_total(
    record: Record, stated: Mapping[str, Any], found: windows.Workers, paths: Sequence[Path]
) -> Record:
    """Make the whole job the record's one window, if the log prints few of its steps.

    The time of all steps is a better estimate than a sample of them. If the sample disagrees, the
    total time includes other work, and the printed throughput is used.
    """
    steps, seconds = stated.get("steps", 0), stated.get("elapsed_seconds", 0.0)
    printed = sum(one.steps for one in next(iter(found.values())))
    if not (steps and seconds > 0 and printed < _SAMPLE * steps):
        return record
    by_lines, images = rate([record]), steps * record.trial.global_batch
    low, high = by_lines.low, by_lines.high
    if low is None or high is None or not low <= images / seconds <= high:
        return record
    point = record.trial.replace(warmup_windows=0, windows=1)
    facts = {ROUNDING: stated["steps_rounding"], WHOLE_JOB: True}
    rank = replace(
        record.ranks[0], seconds=(seconds,), ends=(seconds,), images=(images,), facts=facts
    )
    figures = {"rate": by_lines.images_per_second, "share": printed / steps}
    of_speeds = {NoteKind.LOG_ROUNDED, NoteKind.LOG_TIMES_UNKNOWN}
    kept = (note for note in record.notes if note.kind not in of_speeds)
    notes = (Note(NoteKind.LOG_WHOLE_JOB, figures), *kept)
    return replace(
        record,
        trial=point,
        identity=_identity(point, paths),
        notes=notes,
        message="; ".join(texts(notes)),
        ranks=(rank,),
        elapsed_seconds=seconds,
    )


def _speeds(
    format_: Format, whose: Format, point: Trial, ranks: Sequence[Rank], assumed: Sequence[str]
) -> Iterator[Note]:
    """Yield notes on whose throughput is printed, assumed settings, and rounding."""
    if whose.of.startswith("one-"):
        yield Note(NoteKind.LOG_SPEEDS, {"speeds": whose.of.removeprefix("one-")})
    elif whose.of == "job" != format_.of:
        yield Note(NoteKind.LOG_JOB_SPEED, {"ranks": point.workers})

    if assumed:
        yield Note(NoteKind.LOG_ASSUMED, {"what": list(assumed)})
    if format_.name == "mxnet":
        yield Note(NoteKind.LOG_COSTS)
    share = max(rank.facts.get(ROUNDING, 0.0) for rank in ranks)
    if share >= _COARSE:
        yield Note(NoteKind.LOG_ROUNDED, {"share": share})


def _started(found: windows.Workers) -> str:
    times = [one.at for part in found.values() for one in part if one.at is not None]
    return datetime.fromtimestamp(min(times), UTC).replace(tzinfo=None).isoformat() if times else ""
