"""Failed repeats of a sweep: cause and next command of each."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plots.format import status_text
from results.record import Record

_MOST = 10


@dataclass(frozen=True, kw_only=True)
class FailedRepeat:
    """The record of a failed repeat and the processes that caused the failure."""

    record: Record
    suspects: tuple[str, ...] = ()


def failure_lines(failed: Sequence[FailedRepeat], run: str, repeats: int) -> Iterator[str]:
    """Yield the lines on failed repeats that end a sweep.

    run      --run of the sweep's folder
    repeats  repeats of each point
    """
    for one in failed[:_MOST]:
        identity = one.record.identity
        name = f"{identity.name}, repeat {identity.repeat + 1}" if repeats > 1 else identity.name
        yield f"{name}: {status_text(one.record.status)}: {one.record.message}"
        yield f"  {_next_step(one, run, repeats)}"
    if failed:
        more = (
            f"{len(failed) - _MOST} more failed; the report lists them below the table. "
            if len(failed) > _MOST
            else ""
        )
        yield f"{more}Finished repeats are kept: the same command runs only the rest"


def _next_step(failed: FailedRepeat, run: str, repeats: int) -> str:
    identity = failed.record.identity
    words = ["--run", run, "--point", identity.name]
    words += ["--repeat", str(identity.repeat + 1)] if repeats > 1 else []
    words += ["--process", *failed.suspects] if len(failed.suspects) == 1 else []
    logs = "its log" if len(failed.suspects) == 1 else "the logs"
    read = f"Read {logs}: fab hosts.logs {shlex.join(words)}"
    if failed.record.status == "timeout":
        longer = "raise --rendezvous SECONDS if hosts start slowly"
        ports = "open all ports between the hosts ('fab hosts.check' tests them); "
        return f"{read}; {ports * (failed.record.trial.hosts > 1)}{longer}"
    return read
