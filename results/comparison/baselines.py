"""Saved baselines: named copies of runs; lookup of runs by name."""

import json
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from bench.errors import error_line, quoted, unknown
from im2rec_tools.files import atomic_folder, copy
from results.comparison.references import reference
from results.comparison.references import table_names as references
from results.errors import StoreError, store_errors
from results.run import Run, load
from results.run_folder import COMPARED, ORIGIN, saved_runs
from results.store import read_json, write_text

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KINDS = ("run", "baseline", "reference")


def names(folder: Path) -> list[str]:
    """Return the names of the saved baselines."""
    return [path.name for path in saved_runs(folder)]


def save(name: str, run: Run, folder: Path) -> Path:
    """Copy the files that comparisons need to a folder of their own; return it.

    The folder is small enough to commit, and the run may then change or be removed.
    Raises StoreError if the name is invalid or taken.
    """
    target = folder / name
    if not _NAME.fullmatch(name) or name in references():
        raise StoreError(
            error_line(
                f"baseline {quoted(name)}",
                expected="a name of letters, digits, '.', '_' and '-' that no published table has",
                fix="Choose another name",
            )
        )
    if target.exists():
        fix = f"Remove it first with 'fab report.baseline {name} --remove'"
        raise StoreError(error_line(target, problem="already exists", fix=fix))
    origin = {"run": run.name, "kept": datetime.now(UTC).isoformat(timespec="seconds")}
    # Atomic: an existing name is always a complete baseline.
    with store_errors(target, "written"), atomic_folder(target) as made:
        for file in COMPARED:
            if (run.folder / file).exists():
                copy(run.folder / file, made / file)
        write_text(made / ORIGIN, json.dumps(origin, indent=1) + "\n")
    return target


def describe(name: str, folder: Path) -> str:
    """Return one line: the baseline's run, date and points, or why it is unreadable."""
    try:
        origin: dict[str, str] = read_json(folder / name, ORIGIN, {})
        rows = load(folder / name).rows
    except StoreError as error:
        return f"{name}: unreadable: {error}"
    good = sum(row.rate is not None for row in rows)
    since = str(origin.get("kept", "?"))[:10]
    return (
        f"{name}: run {origin.get('run', '?')}, saved {since}, {good} of {len(rows)} points with a "
        f"result"
    )


def folder_beside(run: Path) -> Path | None:
    """Return the folder of saved baselines beside the runs; None for a run elsewhere."""
    parent = run.resolve().parent
    return parent.parent / "baselines" if parent.name == "runs" else None


def saved_times(run: Path) -> dict[str, str]:
    """Return when each baseline beside a run was saved, by name."""
    folder = folder_beside(run)
    return {} if folder is None else {name: _saved(folder / name) for name in names(folder)}


def _saved(path: Path) -> str:
    try:
        origin: dict[str, str] = read_json(path, ORIGIN, {})
        return str(origin.get("kept", ""))
    except StoreError:
        return ""


def readable_baselines(run: Path, chosen: Collection[str]) -> list[Run]:
    """Return those baselines beside a run that can be read."""
    folder, found = folder_beside(run), list[Run]()
    if folder is None:
        return found
    for name in chosen:
        with suppress(StoreError):
            found.append(load(folder / name))
    return found


def remove(name: str, folder: Path) -> None:
    """Remove a saved baseline; raise StoreError with the known names if there is none."""
    if name not in names(folder):
        raise StoreError(str(unknown("baseline", name, names(folder) or ["none saved yet"])))
    with store_errors(folder / name, "removed"):
        shutil.rmtree(folder / name)


def open_run(name: str, runs: Path, folder: Path) -> Run:
    """Open the run, saved baseline or published table of that name.

    'run:NAME', 'baseline:NAME' and 'reference:NAME' select the kind. Raises StoreError if the
    name is unknown or ambiguous.
    """
    kind, colon, rest = name.partition(":")
    if colon and kind in _KINDS:
        return _opened(kind, rest, runs, folder)
    fitting = [kind for kind in _KINDS if name in _there(kind, runs, folder)]
    if len(fitting) > 1:
        kinds = " and a ".join(fitting)
        ways = " or ".join(f"{kind}:{name}" for kind in fitting)
        problem = f"the name of a {kinds}"
        raise StoreError(error_line(quoted(name), problem=problem, fix=f"Give {ways}"))
    if not fitting:
        there = [one for kind in _KINDS for one in _there(kind, runs, folder)]
        known = [*there, "or a path"]
        raise StoreError(str(unknown("run, baseline or reference", name, known)))
    return _opened(fitting[0], name, runs, folder)


def _there(kind: str, runs: Path, folder: Path) -> list[str]:
    return references() if kind == "reference" else names(folder if kind == "baseline" else runs)


def _opened(kind: str, name: str, runs: Path, folder: Path) -> Run:
    there = _there(kind, runs, folder)
    if name not in there:
        raise StoreError(str(unknown(kind, name, there or ["none saved yet"])))

    if kind == "reference":
        return reference(name)
    return load((folder if kind == "baseline" else runs) / name)
