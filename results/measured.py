"""Measured: what one record says, without the raw windows of its ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench.notes import Note, NoteKind
from bench.secrets import masked_text
from bench.trial import Trial
from results.conditions import conditions
from results.ledger import slow_ranks
from results.rates import Parts, parts
from results.record import BareRank, BareRecord, Identity, notes_of
from results.windows import JobWindows, job_windows, left_out, unsteadiness


class Pace(NamedTuple):
    """How fast one rank went in the windows that count.

    seconds      median of its windows
    own_seconds  median of its probes of forward and backward alone; None where it had none
    cpu_share    processor seconds a second of its windows; None where they were not counted
    """

    rank: int
    host: str
    process: str
    seconds: float
    own_seconds: float | None
    cpu_share: float | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A record as tables and pages need it; one that is not ok has no windows, parts or paces.

    source      "" for what mxscale measured, else where the figures come from
    windows     (seconds, images) of each window of the whole job, warm-up included
    dropped     how many of them, from the first, do not count
    parts       what its rate is made from
    notes       what a reader must know of its number
    conditions  variables and instructions it ran with
    commands    its processes' command lines, by process
    machines    what was counted on each host as measuring began and ended
    facts       what its first rank said of itself
    peak_memory_bytes  of the rank that used most memory, if any said it
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
    parts: Parts | None = None
    notes: tuple[Note, ...] = ()
    conditions: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    machines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    paces: tuple[Pace, ...] = ()
    peak_memory_bytes: int | None = None

    @property
    def unsteady(self) -> bool:
        """Whether its windows did not become steady.

        A drift counts only if a precision was to be reached, a level that is not confirmed only if
        windows were asked for: training to an accuracy has as many as it has.
        """
        kinds = {note.kind for note in self.notes}
        drifts = self.trial.precision > 0 and NoteKind.DRIFT in kinds
        return drifts or (self.trial.windows > 0 and NoteKind.NOT_STEADY in kinds)

    @property
    def steady_windows(self) -> tuple[tuple[float, int], ...]:
        """Its windows that count."""
        return self.windows[self.dropped :]


def measured(record: BareRecord) -> Measured:
    """What the record says."""
    common: dict[str, Any] = {
        "trial": record.trial,
        "identity": record.identity,
        "status": record.status,
        "message": record.message if record.status != "ok" else "",
        "emulated": record.emulated,
        "started": record.started,
        "elapsed_seconds": record.elapsed_seconds,
        "accuracy": record.accuracy,
        "source": record.source,
        "commands": {name: masked_text(text) for name, text in record.commands.items()},
        "machines": record.machines,
        "conditions": conditions(record),
        "facts": record.ranks[0].facts if record.ranks else {},
        "peak_memory_bytes": _peak_memory(record.ranks),
    }
    if record.status != "ok":
        return Measured(**common)
    job = job_windows(record)
    return Measured(
        **common,
        windows=job.each,
        dropped=job.found.dropped,
        parts=parts(record, job),
        notes=(
            *([Note(NoteKind.NOT_OURS, {"source": record.source})] if record.source else []),
            *notes_of(record),
            *slow_ranks(record),
            *left_out(record.trial, job),
            *unsteadiness(record.trial, job),
        ),
        paces=paces(record.ranks, job),
    )


def _peak_memory(ranks: Sequence[BareRank]) -> int | None:
    said = (rank.facts.get("peak_memory_bytes") for rank in ranks)
    return max((one for one in said if isinstance(one, int)), default=None)


def paces(ranks: Sequence[BareRank], job: JobWindows) -> tuple[Pace, ...]:
    """The pace of each rank in the job's windows that count, in the order of their ranks."""
    seconds = job.seconds[:, job.found.dropped :]
    middles, sums = np.median(seconds, axis=1).tolist(), seconds.sum(axis=1).tolist()
    found = [_pace(*one, job) for one in zip(ranks, middles, sums, strict=True)]
    return tuple(sorted(found, key=lambda one: one.rank))


def _pace(rank: BareRank, middle: float, seconds: float, job: JobWindows) -> Pace:
    cpu = rank.cpu_seconds[job.found.dropped : len(job.each)]
    return Pace(
        rank=rank.rank,
        host=rank.host,
        process=rank.process,
        seconds=middle,
        own_seconds=median(rank.own_seconds) if rank.own_seconds else None,
        cpu_share=sum(cpu) / seconds if cpu else None,
    )
