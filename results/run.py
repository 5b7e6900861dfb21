"""A run folder as reports read it: rows, environment, missing points."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.errors import error_line, quoted
from bench.settings.point_names import is_called, point_words
from bench.settings.secrets import command_line, masked, masked_word
from bench.trial import Trial
from results.errors import StoreError
from results.host_facts import (
    CONTROLLER_FACTS,
    HOST_FACTS,
    Place,
    omitted,
    tcp_bytes_per_second,
)
from results.quality import own_doubts
from results.reader import asked_identities, asked_names, asked_trials, read_summaries
from results.record import Identity, Record, grouped
from results.repeat import RepeatSummary
from results.run_folder import ASKED, ENVIRONMENT, HOSTS, LOGS, SWEEP, TRY, try_folders
from results.scaling import ScalingRow, rows_of, with_chosen_baseline, with_link
from results.speedup import parse_baseline
from results.store import UnreadableLine, read_json, read_records

# Replaces the folder of a run outside the checkout.
ELSEWHERE = "RUN"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder as a report needs it.

    missing     names of the runs (repeats of a point) that are not measured yet
    troubles    unreadable parts, which are skipped
    place       its `location` when its report was built; None: the current one
    unmeasured  the trials of points without a repeat, as far as asked.json has them
    earlier     tries of its repeats that were measured again since, oldest first
    """

    folder: Path
    rows: list[ScalingRow]
    environment: dict[str, Any]
    missing: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    unmeasured: tuple[Trial, ...] = ()
    earlier: tuple[RepeatSummary, ...] = ()
    place: str | None = None

    @property
    def location(self) -> str:
        """The folder relative to the checkout; commands use it to find the stored sweep.

        'RUN' if the folder is outside the checkout; '' if the run has no stored sweep.
        """
        folder = self.folder.resolve()
        if self.place is not None:
            return self.place
        if not (folder / SWEEP).is_file():
            return ""
        below = folder.is_relative_to(Path.cwd())
        return folder.relative_to(Path.cwd()).as_posix() if below else ELSEWHERE

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.folder.resolve().name

    @property
    def commit(self) -> str:
        """The commit of the checkout that measured the run."""
        return str(self.environment.get("commit") or "")

    @cached_property
    def sources(self) -> list[str]:
        """The sources of imported or reported figures, each once; else empty."""
        known = (row for row in self.rows if row.rate)
        return list(dict.fromkeys(source for row in known for source in row.sources))

    @cached_property
    def rehearsal(self) -> bool:
        """Whether the simulated engine ran any point."""
        return any(row.trial.scripted for row in self.rows)

    @property
    def complete(self) -> bool:
        """Whether all files were readable and every point has a result."""
        return not self.missing and not self.troubles and all(row.rate for row in self.rows)


def load(folder: Path) -> Run:
    """Read a run folder: the records of the last requested sweep, in its order.

    Skips unreadable parts and lists them in `troubles`. Raises StoreError if there is no run, or
    no readable record.
    """
    return build_run(folder, read_summaries(folder))


def build_run(folder: Path, said: Iterable[RepeatSummary | UnreadableLine]) -> Run:
    """Return the run of these records, oldest first; see `load`."""
    found: dict[Identity, RepeatSummary] = {}
    unread, replaced = [], []
    for one in said:
        if isinstance(one, UnreadableLine):
            unread.append(one)
        else:
            replaced += [found[one.identity]] if one.identity in found else []
            found[one.identity] = one
    asked: list[Identity] = []
    environment: dict[str, Any] = {}
    trials: list[Trial] = []
    names: dict[str, str] = {}
    troubles = []
    try:
        asked, trials, names = asked_identities(folder), asked_trials(folder), asked_names(folder)
    except StoreError as error:
        troubles.append(f"{error}; the report uses every record")
    troubles = [*(str(one) for one in unread if _matters(one, found, asked)), *troubles]
    asked = asked or list(found)
    try:
        environment = read_environment(folder)
    except StoreError as error:
        troubles.append(str(error))
    records = [found[name] for name in asked if name in found]
    if not records:
        raise StoreError(_nothing(folder, troubles, len(found)))
    repeats = Counter(one.key for one in asked)
    points = grouped((one.identity.key, one) for one in records)
    ordered = [one for key in repeats for one in points.get(key, ())]
    # Keep the points of a network together, whatever their store.
    networks = grouped(((one.trial.mode, one.trial.label), one) for one in ordered)
    records = [one for group in networks.values() for one in group]
    known, requested = {one.identity.key for one in records}, set(asked)
    unmeasured = tuple(one for one in trials if one.key not in known)
    return Run(
        folder=folder,
        rows=with_link(rows_of(records, unmeasured), tcp_bytes_per_second(environment)),
        unmeasured=unmeasured,
        environment=environment,
        earlier=tuple(one for one in replaced if one.identity in requested),
        missing=tuple(
            _named(names.get(one.key, one.name), one, repeats[one.key])
            for one in asked
            if one not in found
        ),
        # A report must not depend on the place of its run.
        troubles=tuple(one.replace(f"{folder}/", "") for one in troubles),
    )


def _named(point: str, one: Identity, repeats: int) -> str:
    return point if repeats == 1 else f"{point} (repeat {one.repeat + 1} of {repeats})"


def _matters(one: UnreadableLine, found: Iterable[Identity], asked: Sequence[Identity]) -> bool:
    """Return whether an unreadable line may have held a record that the run lacks.

    False for the beginning of a record that was measured again or is not requested, and for a torn
    line if the run has all requested records.
    """
    if one.torn and asked and all(name in found for name in asked):
        return False
    if one.began is None:
        return True
    known, wanted = ({(name.key, name.repeat) for name in names} for names in (found, asked))
    return one.began not in known and (not wanted or one.began in wanted)


def _nothing(folder: Path, troubles: Sequence[str], others: int) -> str:
    if others:
        problem = f"none of its {others} records is of a point that {ASKED} requests"
        return error_line(folder, problem=problem, fix=f"Delete {ASKED} to use every record")
    if troubles:
        more = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        first = f"no readable record; the first problem: {troubles[0]}{more}"
        return error_line(folder, problem=first)
    problem = "no point has been measured yet"
    return error_line(folder, problem=problem, fix="Measure with 'fab bench.sweep'")


class Again(StrEnum):
    """Class of repeats to measure once more.

    They have no result, no steady state, or belong to a point of quality `doubtful`.
    """

    FAILED = "failed"
    UNSTABLE = "unstable"
    DOUBTFUL = "doubtful"


def to_measure_again(run: Run, which: Again) -> list[Identity]:
    """Return the repeats of a class.

    Of a doubtful point they are the doubtful repeats, or all if no single one is.
    A point that has its quality from its baseline only does not count: the baseline does.
    """
    if which is Again.DOUBTFUL:
        doubtful = [row for row in run.rows if own_doubts(row.quality_notes)]
        return [
            one.identity
            for row in doubtful
            for one in [one for one in row.repeats if own_doubts(one.notes)] or row.repeats
        ]
    repeats = [one for row in run.rows for one in row.repeats]
    if which is Again.FAILED:
        return [one.identity for one in repeats if one.samples is None]
    return [one.identity for one in repeats if one.unsteady]


def repeats_again(run: Run, wanted: Collection[Identity], which: Again) -> set[Identity]:
    """Return those of the wanted repeats to measure once more.

    Repeats of their points that were never measured, as after a larger number of repeats, count
    too.
    """
    found = set(to_measure_again(run, which))
    known = {one.identity for row in run.rows for one in row.repeats}
    points = {one.key for one in found}
    return {one for one in wanted if one in found or (one.key in points and one not in known)}


def with_baseline(run: Run, text: str) -> Run:
    """Return the run with scalings vs this baseline, 'KVSTORE xN'; unchanged for ''."""
    if not text:
        return run
    return replace(run, rows=with_chosen_baseline(run.rows, parse_baseline(text), run.unmeasured))


def known_identities(folder: Path, records: Iterable[Record]) -> list[Identity]:
    """Return the identities of a run: those last requested, and those recorded."""
    return list(dict.fromkeys([*asked_identities(folder), *(one.identity for one in records)]))


def job_with_logs(folder: Path, words: str, repeat: int | None) -> tuple[Identity, Path]:
    """Return the newest job with logs that matches, and the folder of its logs.

    Its point's name must have all the words, or its settings those with `=`; `repeat` counts from
    1. Without words, jobs without a
    result come first. StoreError if none matches.
    """
    records = read_records(folder)
    statuses = {(one.identity.key, str(one.identity.repeat)): one.status for one in records}
    names = {(name.key, str(name.repeat)): name for name in known_identities(folder, records)}
    found = {
        path.parent: names[path.parts[-3], path.parts[-2]]
        for path in folder.glob(f"{LOGS}/*/*/{HOSTS}")
        if (path.parts[-3], path.parts[-2]) in names
    }
    if not found:
        raise StoreError(error_line(folder, problem="has no logs"))
    trials = {one.identity.key: one.trial for one in records}
    wanted = [
        path
        for path, name in found.items()
        if _fits(name, trials, words) and repeat in {None, name.repeat + 1}
    ]
    if not wanted:
        asked = " and ".join([repr(words)] * bool(words) + [f"repeat {repeat}"] * bool(repeat))
        selecting = dict(zip(trials, point_words([*trials.values()]), strict=True))
        known = ", ".join(sorted({selecting.get(one.key, one.name) for one in found.values()}))
        problem = f"no point with logs has {asked}; those with logs: {known}"
        raise StoreError(error_line(folder, problem=problem, fix="Choose one of them with --point"))

    def order(path: Path) -> tuple[bool, float]:
        has_result = statuses.get((path.parts[-2], path.parts[-1])) == "ok"
        return not (words or has_result), (path / HOSTS).stat().st_mtime

    newest = max(wanted, key=order)
    return found[newest], newest


def _fits(name: Identity, trials: Mapping[str, Trial], words: str) -> bool:
    """Return whether a repeat has the words; without a record, only its name is known."""
    if name.key in trials:
        return is_called(trials[name.key], words)
    return set(words.split()) <= {*name.name.split(), f"key={name.key}"}


def logs_of_try(logs: Path, number: int) -> Path:
    """Return the folder with the logs of a try of a repeat, from 1.

    `logs` has those of the last one. StoreError if the logs of the try are deleted.
    """
    folders = {int(path.name.removeprefix(TRY)): path for path in try_folders(logs)}
    folders[max(folders, default=0) + 1] = logs
    if number not in folders:
        known = ", ".join(map(str, folders))
        fix = "Older logs are deleted; records.jsonl keeps the cause of each try"
        raise StoreError(error_line("--attempt", expected=f"one of {known}", got=number, fix=fix))
    return folders[number]


def newest_with_logs(runs: Path) -> Path:
    """Return the run whose job started last; StoreError if none has logs."""
    found = list(runs.glob(f"*/{LOGS}/*/*/{HOSTS}"))
    if not found:
        fix = "Measure with 'fab bench.sweep'"
        raise StoreError(error_line(runs, problem="no run has logs yet", fix=fix))
    return max(found, key=lambda path: path.stat().st_mtime).parents[3]


_HIDDEN = omitted(CONTROLLER_FACTS, Place.REPORT)


def read_environment(folder: Path) -> dict[str, Any]:
    """Read environment.json; empty if there is none.

    Raises StoreError with the name of the fact if a value has another type than mxscale writes.
    """
    found: dict[str, Any] = read_json(folder, ENVIRONMENT, {})
    for known in CONTROLLER_FACTS:
        if known.check and not known.check(found.get(known.name)):
            raise _odd(folder, known.name, found[known.name])
    command = found.get("command", [])
    if not isinstance(command, list) or not all(isinstance(one, str) for one in command):
        raise _odd(folder, "command", found["command"])
    hosts = found.get("hosts")
    if hosts is not None and not isinstance(hosts, dict):
        raise _odd(folder, "hosts", hosts)
    for host, facts in (hosts or {}).items():
        if not isinstance(facts, dict):
            raise _odd(folder, f"hosts: {quoted(host)}", facts)
        for known in HOST_FACTS:
            if known.check and known.name in facts and not known.check(facts[known.name]):
                raise _odd(folder, f"hosts: {quoted(host)}: {known.name}", facts[known.name])
        _mask(facts)
    _mask(found)
    if "command" in found:
        found["command"] = list(map(masked_word, found["command"]))
    return found


def _mask(facts: dict[str, Any]) -> None:
    """Mask secrets among a machine's variables, which earlier versions recorded."""
    variables = facts.get("variables")
    if isinstance(variables, dict):
        facts["variables"] = masked(variables)


def shown_environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment's facts for a report, without hosts."""
    found = {name: value for name, value in environment.items() if name not in _HIDDEN}
    return found | ({"command": command_line(found["command"])} if found.get("command") else {})


def _odd(folder: Path, name: str, value: object) -> StoreError:
    where = f"{folder / ENVIRONMENT}: {name}"
    return StoreError(error_line(where, expected="a value as mxscale writes it", got=quoted(value)))
