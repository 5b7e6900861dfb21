"""Records made from logs of other tools."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.errors import SpecError, quoted
from bench.notes import Note, NoteKind, texts
from bench.trial import Trial
from results.imports import formats, windows
from results.imports.arguments import HOROVOD
from results.imports.log import SPEEDS_OF, Format, Log
from results.imports.point import LogDescription, assumed_facts, trial
from results.rates import ROUNDING, WHOLE_JOB, rate
from results.record import Identity, Rank, Record, emit, parse

# A rounding of speeds that is worth a note, as a part of them.
_COARSE = 0.001
# A log that prints the speeds of fewer of its steps has a sample of them.
_SAMPLE = 0.5
# What a log says of itself alone.
_OF_A_FILE = {"elapsed_seconds", "also_network", "sixteen", "ratio"}


@dataclass(frozen=True, kw_only=True)
class ImportedRecord:
    """A record, the files that it is made from, and the total that they print, 0.0 if none."""

    record: Record
    paths: tuple[Path, ...]
    format: Format
    total: float = 0.0


def import_logs(paths: Sequence[Path], asked: LogDescription, name: str = "auto") -> ImportedRecord:
    """The record of the one job that these files are logs of, as its first repeat.

    Raises SpecError where they have no speed, or do not say with `asked` what point they are of.
    """
    format_, logs = _read(paths, name, asked.speeds_of)
    where, said = str(paths[0]), _said(logs)
    found = windows.workers(logs, format_, asked.workers or asked.hosts or said.get("hosts", 0))
    point = trial(where, asked, said, format_, len(found))
    whose = format_ if asked.speeds_of else _whose(where, found, point, format_)
    if whose.of != "workers":
        found = dict([next(iter(found.items()))])
    _check_job(where, len(found), said, point, whose)
    kept = windows.common_stretches(found, point.asynchronous)
    shares = 1 if asked.speeds_of else said.get("shares", 1) or point.workers
    ranks = windows.ranks(kept, point, whose, shares)
    _check_enough(where, ranks, point)
    own = 0.0 if whose.of == "one-worker" else sum(log.total for log in logs.values())
    finished = list(_finished(said, kept, point))
    notes = _once(
        windows.clock(kept, ranks, logs),
        *([Note(NoteKind.LOG_OWN_TOTAL, {"rate": own})] if own > 0 else []),
        *finished,
        *(note for log in logs.values() for note in log.notes),
        *_speeds(format_, whose, point, ranks, list(assumed_facts(asked, said, point))),
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
        record = _by_total(record, said, kept, paths)
    _check_stored(where, record)
    total = own or sum(note.figures["rate"] for note in finished)
    return ImportedRecord(record=record, paths=tuple(paths), format=whose, total=total)


def _whose(where: str, found: windows.Workers, point: Trial, format_: Format) -> Format:
    """The format with whose images its speeds count, by what the log itself shows.

    Under Horovod one rank prints them, most often for the whole job. The times on the lines say
    which it is; SpecError if they are needed and do not.
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
        f"{where}: {len(found)} of {point.workers} ranks print speeds and nothing says whether of "
        f"their own images or of the job's; add --speeds-of workers or --speeds-of job"
    )


def _files(paths: Sequence[Path]) -> str:
    return f"{paths[0].name} and {len(paths) - 1} more" if len(paths) > 1 else paths[0].name


def _identity(point: Trial, paths: Sequence[Path]) -> Identity:
    """Its first repeat; a digest of the logs stands where that of the code does."""
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
    """Raises SpecError for a record that the store could not read again."""
    try:
        parse(emit(record))
    except (SpecError, ValueError) as error:
        raise SpecError(f"{where}: what it says cannot be a point: {error}") from error


def _check_job(
    where: str, found: int, said: Mapping[str, Any], point: Trial, format_: Format
) -> None:
    """Raises SpecError if speeds and total of the log are not those of the point's workers.

    Its total may be that of `shares` processes, each of which has a device.
    """
    shares, ratio = said.get("shares", 1), said.get("ratio", 0.0)
    if format_.of == "workers" and found != point.workers:
        raise SpecError(
            f"{where}: expected speeds of {point.workers} workers, found those of {found}. Give "
            f"the logs of all of them, correct --workers, or add --speeds-of one-worker or job"
        )

    if shares > point.layout.devices:
        raise SpecError(
            f"{where}: its total is that of {shares} processes as fast as the one that prints its "
            f"speed, which have at least {shares} devices, got {point.layout.devices}. "
            f"Check --devices"
        )

    if ratio and not 0.75 < ratio / point.workers < 1.33:
        raise SpecError(
            f"{where}: its total is {ratio:.3g} times the speed of the worker that prints it, got "
            f"{point.workers} workers ({point.layout.devices} devices). Check --devices"
        )


def _read(paths: Sequence[Path], name: str, speeds_of: str) -> tuple[Format, dict[str, Log]]:
    if speeds_of and speeds_of not in SPEEDS_OF:
        raise SpecError(
            f"--speeds-of: expected one of {', '.join(SPEEDS_OF)}, got {quoted(speeds_of)}"
        )
    logs: dict[str, Log] = {}
    for path in paths:
        if str(path) in logs:
            raise SpecError(f"{path}: is given twice")
        format_, logs[str(path)] = formats.read_log(path, name)
        name = format_.name
    format_ = replace(format_, of=speeds_of or format_.of)
    if format_.of != "workers" and len(logs) > 1:
        raise SpecError(
            f"{', '.join(logs)}: a log of {format_.title} stands for a whole job; import one after "
            f"the other, each is a point or a repeat"
        )
    return format_, logs


def _said(logs: Mapping[str, Log]) -> dict[str, Any]:
    """What all of them say; SpecError where they differ."""
    said: dict[str, Any] = {}
    for name, log in logs.items():
        for key, value in log.said.items():
            if said.setdefault(key, value) != value and key not in _OF_A_FILE:
                raise SpecError(
                    f"{name}: it says {value} ({key.replace('_', ' ')}), another of the files "
                    f"{said[key]}; files that are imported together are of one job"
                )
    return said


def _check_enough(where: str, ranks: Sequence[Rank], point: Trial) -> None:
    least = min((len(rank.seconds) for rank in ranks), default=0)
    if least == 0:
        raise SpecError(f"{where}: expected stretches that all workers tell of, there is none")
    if least <= point.measuring.warmup_windows:
        raise SpecError(
            f"{where}: expected speeds after warm-up, the first "
            f"{point.measuring.warmup_windows} of each worker, and there are "
            f"{least} in all; --warmup 0 counts them"
        )
    for rank in ranks:
        if min(rank.images) < 1:
            raise SpecError(f"{where}: expected images in each stretch, one has none")


def _counted(logs: Mapping[str, Log], left: int) -> Iterator[Note]:
    used = sum(len(log.stretches) for log in logs.values())
    yield Note(NoteKind.LOG_LINES, {"used": used, "lines": sum(log.lines for log in logs.values())})
    if spoilt := [(name, one) for name, log in logs.items() for one in log.spoilt]:
        first = f"{Path(spoilt[0][0]).name}:{spoilt[0][1]}"
        yield Note(NoteKind.LOG_SPOILT, {"count": len(spoilt), "first": first})
    if left:
        yield Note(NoteKind.LOG_LEFT_OUT, {"count": left})


def _once(*notes: Note) -> tuple[Note, ...]:
    """The notes, each once; those that a report's summary names come first."""
    found = {repr(note): note for note in notes}.values()
    return tuple(sorted(found, key=lambda note: not note.kind.headline))


def _finished(said: Mapping[str, Any], found: windows.Workers, point: Trial) -> Iterator[Note]:
    """What the whole job comes to by its own account of its time."""
    seconds = said.get("elapsed_seconds", 0.0)
    if seconds > 0:
        steps = said.get("steps", 0) or next(iter(found.values()))[-1].place[-1]
        figures = {
            "steps": steps,
            "seconds": seconds,
            "rate": steps * point.global_batch / seconds,
        }
        yield Note(NoteKind.LOG_TOTAL, figures | {"epochs": said.get("epochs", 0)})


def _by_total(
    record: Record, said: Mapping[str, Any], found: windows.Workers, paths: Sequence[Path]
) -> Record:
    """The record with the whole job as its one window, if the log has the speeds of few steps.

    A job that says how long all of its steps took is known better than by a sample of them. The
    sample has to agree; if it does not, something else is in the time, and the speeds count.
    """
    steps, seconds = said.get("steps", 0), said.get("elapsed_seconds", 0.0)
    printed = sum(one.steps for one in next(iter(found.values())))
    if not (steps and seconds > 0 and printed < _SAMPLE * steps):
        return record
    by_lines, images = rate([record]), steps * record.trial.global_batch
    low, high = by_lines.low, by_lines.high
    if low is None or high is None or not low <= images / seconds <= high:
        return record
    point = record.trial.replace(warmup_windows=0, windows=1)
    facts = {ROUNDING: said["steps_rounding"], WHOLE_JOB: True}
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
    """Whose images the speeds count, and what of the point and of them is not exact."""
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
