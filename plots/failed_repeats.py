"""Failed and replaced tries of a sweep's repeats: cause, process, next command."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten

from bench.settings.point_names import point_names, point_words
from bench.trial import Trial
from plots.format import list_names, status_text
from plots.items import Item
from results.record import Cause, FailedProcess, Failure, Identity, Record
from results.repeat import RepeatSummary
from results.run import Run

_MOST, _MOST_PROCESSES, _CAUSE_WIDTH = 10, 3, 160
TRY_HEADER = ("point", "repeat", "try", "started (UTC)", "status", "cause", "message")
# Tries on the page; records.jsonl has all.
MOST_TRIES = 1000


def failure_lines(
    failed: Sequence[Record],
    run: str,
    repeats: int,
    again: str = "",
    trials: Sequence[Trial] = (),
) -> Iterator[str]:
    """Yield the lines on failed repeats that end a sweep.

    run      --run of the sweep's folder
    repeats  repeats of each point
    again    the command that runs the failed repeats once more, if known
    trials   all points of the sweep, to distinguish those with one name
    """
    words = dict(zip((one.key for one in trials), point_words(trials), strict=True))
    names = dict(zip((one.key for one in trials), point_names(trials), strict=True))
    for one in failed[:_MOST]:
        identity = one.identity
        name = names.get(identity.key, identity.name)
        name += f", repeat {identity.repeat + 1}" if repeats > 1 else ""
        yield f"{name}: {status_text(one.status)}: {one.message}"
        point = words.get(identity.key, identity.name)
        yield f"  {_next_step(one, run, repeats, point)}"
    if failed:
        more = (
            f"{len(failed) - _MOST} more failed; the report lists them below the table. "
            if len(failed) > _MOST
            else ""
        )
        rest = f"Run the failed ones again: {again}" if again else "Run the same command again"
        if {one.failure.cause for one in failed if one.failure} == {Cause.TARGET_MISSED}:
            rest = "Change the sweep first; the same settings would miss the accuracy again"
        yield f"{more}Finished repeats are kept. {rest}"


def failure_place(failure: Failure | None) -> str:
    """Return 'worker-1 (PID 4242) in window 12 of 40'; '' if no process is known.

    A process that ended between its last window and its end was 'after window 40 of 40'.
    """
    found = []
    for one in failure.processes if failure else ():
        pid = "" if one.pid is None else f" (PID {one.pid})"
        found.append(f"{one.process}{pid}{_window(one)}")
    return list_names(found, _MOST_PROCESSES, ", ")


def _window(one: FailedProcess) -> str:
    if one.window is None:
        return ""
    if one.windows and one.window > one.windows:
        return f" after window {one.windows} of {one.windows}"
    return f" in window {one.window}" + f" of {one.windows}" * bool(one.windows)


def _next_step(failed: Record, run: str, repeats: int, point: str) -> str:
    identity, failure = failed.identity, failed.failure
    suspects = [one.process for one in failure.processes] if failure else []
    words = ["--run", run, "--point", point]
    words += ["--repeat", str(identity.repeat + 1)] if repeats > 1 else []
    words += ["--process", *suspects] if len(suspects) == 1 else []
    logs = "its log" if len(suspects) == 1 else "the logs"
    place = failure_place(failure)
    read = f"{place}{'. ' * bool(place)}Read {logs}: fab hosts.logs {shlex.join(words)}"
    if failure and len(suspects) == 1 and failure.processes[0].silent:
        read = f"{place} printed nothing"
    if failed.status == "timeout":
        longer = "raise --rendezvous SECONDS if hosts start slowly"
        ports = "open all ports between the hosts ('fab hosts.check' tests them); "
        return f"{read}; {ports * (failed.trial.hosts > 1)}{longer}"
    return read


def try_rows(run: Run) -> list[tuple[str, ...]]:
    """Return a row under `TRY_HEADER` for each try that was measured again since."""
    names = {row.trial.key: row.name for row in run.rows}
    numbers: Counter[Identity] = Counter()
    found: list[tuple[str, ...]] = []
    for one in run.earlier:
        numbers[one.identity] += 1
        found.append(
            (
                names.get(one.identity.key, one.identity.name),
                str(one.identity.repeat + 1),
                str(numbers[one.identity]),
                _time(one),
                status_text(one.status),
                str(one.failure.cause) if one.failure else "",
                _outcome(one),
            )
        )
    return found[-MOST_TRIES:]


def earlier_items(
    earlier: Sequence[RepeatSummary], names: Mapping[str, str] | None = None
) -> list[Item]:
    """Return the list of tries that were measured again since, each with its cause.

    `names`: of points, by key; others have that of their record.
    """
    if not earlier:
        return []
    known = names or {}
    texts = [
        _try_text(one, known.get(one.identity.key, one.identity.name)) for one in earlier[-_MOST:]
    ]
    if len(earlier) > _MOST:
        texts.insert(0, f"{len(earlier) - _MOST} older ones in records.jsonl")
    return [Item("Earlier tries, which do not count", tuple(texts))]


def _try_text(one: RepeatSummary, point: str) -> str:
    name = f"{point}, repeat {one.identity.repeat + 1}, {_time(one)} UTC"
    status = f"{status_text(one.status)}: " if one.samples is None else ""
    return f"{name}: {status}{_outcome(one)}"


def _time(one: RepeatSummary) -> str:
    return one.started[:19].replace("T", " ")


def _outcome(one: RepeatSummary) -> str:
    """Return why a try has no result, or the caveats of its result."""
    if one.samples is None:
        cause = shorten(one.message or "no cause recorded", _CAUSE_WIDTH, placeholder=" ...")
        return "; ".join(filter(None, (cause, failure_place(one.failure))))
    heads = dict.fromkeys(note.kind.headline for note in one.notes if note.kind.headline)
    return ", ".join(heads) or "no caveats"
