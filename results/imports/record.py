"""Records of what other tools' logs say."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.errors import SpecError
from bench.trial import Trial
from results.imports import formats, windows
from results.imports.clock import clock
from results.imports.log import SPEEDS_OF, Format, Log
from results.imports.point import Asked, granted, trial
from results.record import Identity, Rank, Record, emit, parse


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A record and the files that it is made from."""

    record: Record
    paths: tuple[Path, ...]
    format: Format


def imported(paths: Sequence[Path], asked: Asked, name: str = "auto") -> Imported:
    """The record of the one job that these files are logs of, as its first repeat.

    Raises SpecError where they have no speed, or do not say with `asked` what point they are of.
    """
    format_, logs = _read(paths, name, asked.speeds_of)
    where, said = str(paths[0]), _said(logs)
    mixed = asked.workers or asked.hosts or said.get("hosts", 0)
    found = windows.workers(logs, format_, mixed)
    point = trial(where, asked, said, format_, len(found))
    _check_all_there(where, len(found), point, format_)
    kept = windows.together(found, point.asynchronous)
    ranks = windows.ranks(kept, point, format_, said.get("shares", 1))
    _check_enough(where, ranks, point)
    left = sum(map(len, found.values())) - sum(map(len, kept.values()))
    told = (
        *_counted(logs, left),
        *_finished(said, kept, point),
        *_notes(logs, format_),
        *granted(asked, said, point),
        clock(kept, ranks, logs),
    )
    record = Record(
        trial=point,
        identity=_identity(point, paths),
        status="ok",
        message="; ".join(told),
        ranks=ranks,
        emulated=False,
        started=_started(kept),
        elapsed_seconds=max(sum(rank.seconds) for rank in ranks),
        accuracy=next((log.accuracy for log in logs.values() if log.accuracy is not None), None),
        source=f"imported from {_files(paths)} ({format_.name})",
    )
    _check_stored(where, record)
    return Imported(record=record, paths=tuple(paths), format=format_)


def _identity(point: Trial, paths: Sequence[Path]) -> Identity:
    """Its first repeat; the logs stand where the digest of the code does."""
    return Identity(
        name=point.name,
        key=point.key,
        repeat=0,
        code_hash=_digest(paths),
        data_manifest="",
        hosts=(),
    )


def _check_stored(where: str, record: Record) -> None:
    """Raises SpecError for a record that the store could not read again."""
    try:
        parse(emit(record))
    except (SpecError, ValueError) as error:
        raise SpecError(f"{where}: what it says cannot be a point: {error}") from error


def _check_all_there(where: str, found: int, point: Trial, format_: Format) -> None:
    if format_.of == "workers" and found != point.workers:
        raise SpecError(
            f"{where}: expected speeds of {point.workers} workers, found those of {found}; give "
            f"the logs of all of them, mend --workers, or say --speeds-of one-worker or job"
        )


def _read(paths: Sequence[Path], name: str, speeds_of: str) -> tuple[Format, dict[str, Log]]:
    if speeds_of and speeds_of not in SPEEDS_OF:
        raise SpecError(f"--speeds-of: expected one of {', '.join(SPEEDS_OF)}, got {speeds_of!r}")
    logs: dict[str, Log] = {}
    for path in paths:
        if str(path) in logs:
            raise SpecError(f"{path}: is given twice")
        format_, logs[str(path)] = formats.of(path, name)
        name = format_.name
    format_ = replace(format_, of=speeds_of or format_.of)
    if format_.of != "workers" and len(logs) > 1:
        raise SpecError(
            f"{', '.join(logs)}: a log of {format_.title} stands for a whole job; import one after "
            f"the other, each is a point or a repeat of one"
        )
    return format_, logs


def _said(logs: Mapping[str, Log]) -> dict[str, Any]:
    """What all of them say; SpecError where they differ."""
    said: dict[str, Any] = {}
    for name, log in logs.items():
        for key, value in log.said.items():
            if said.setdefault(key, value) != value:
                raise SpecError(
                    f"{name}: it says {value} ({key.replace('_', ' ')}), another of the files "
                    f"{said[key]}; files that are imported together are of one job"
                )
    return said


def _check_enough(where: str, ranks: Sequence[Rank], point: Trial) -> None:
    least = min((len(rank.seconds) for rank in ranks), default=0)
    if least == 0:
        raise SpecError(f"{where}: expected stretches that all workers tell of, there is none")
    if least <= point.warmup_windows:
        raise SpecError(
            f"{where}: expected speeds after warm-up, the first {point.warmup_windows} of each "
            f"worker, and there are {least} in all; --warmup 0 counts them"
        )
    for rank in ranks:
        if min(rank.images) < 1:
            raise SpecError(f"{where}: expected images in each stretch, one has none")


def _counted(logs: Mapping[str, Log], left: int) -> Iterator[str]:
    lines, used = (sum(counts) for counts in zip(*map(_counts, logs.values()), strict=True))
    yield f"{used} of {lines} lines tell a speed"
    if spoilt := [(name, one) for name, log in logs.items() for one in log.spoilt]:
        name, first = spoilt[0]
        what = "line is torn or tells" if len(spoilt) == 1 else "lines are torn or tell"
        yield f"{len(spoilt)} {what} no speed above 0 (the first: {Path(name).name}:{first})"
    if left:
        yield f"{left} stretches that not all workers tell of are left out"


def _counts(log: Log) -> tuple[int, int]:
    return log.lines, len(log.stretches)


def _finished(said: Mapping[str, Any], found: windows.Workers, point: Trial) -> Iterator[str]:
    """What the whole job comes to by its own account of its time."""
    seconds = said.get("elapsed_seconds", 0.0)
    if seconds > 0:
        steps = next(iter(found.values()))[-1].place[-1]
        rate = steps * point.global_batch / seconds
        yield f"{steps} steps in the {seconds:.0f} s of the whole job are {rate:.0f} images/s"


def _notes(logs: Mapping[str, Log], format_: Format) -> Iterator[str]:
    if format_.of.startswith("one-"):
        yield SPEEDS_OF[format_.of]
    yield from dict.fromkeys(note for log in logs.values() for note in log.notes)


def _started(found: windows.Workers) -> str:
    times = [one.at for part in found.values() for one in part if one.at is not None]
    return datetime.fromtimestamp(min(times), UTC).replace(tzinfo=None).isoformat() if times else ""


def _files(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0].name}{more}"


def _digest(paths: Sequence[Path]) -> str:
    """Of the files: what the same point's repeats are told apart by."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:12]
