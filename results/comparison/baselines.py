"""Saved baselines: copies of runs by name; which run a name means."""

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from bench.errors import quoted, unknown
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
    """The baselines that are kept."""
    return [path.name for path in saved_runs(folder)]


def save(name: str, run: Run, folder: Path) -> Path:
    """Copies what comparisons need of a run to a folder of its own, which git may keep.

    The run can then be removed or go on. Raises StoreError for a name that cannot be or is taken.
    """
    target = folder / name
    if not _NAME.fullmatch(name) or name in references():
        raise StoreError(
            f"baseline {quoted(name)}: expected a name of letters, digits, '.', '_' and '-' that "
            f"no published table has"
        )
    if target.exists():
        raise StoreError(f"{target}: is there already; 'fab report.baseline {name} --remove' first")
    origin = {"run": run.name, "kept": datetime.now(UTC).isoformat(timespec="seconds")}
    # Whole or not at all: a name that is there can be compared with.
    with store_errors(target, "written"), atomic_folder(target) as made:
        for file in COMPARED:
            if (run.folder / file).exists():
                copy(run.folder / file, made / file)
        write_text(made / ORIGIN, json.dumps(origin, indent=1) + "\n")
    return target


def describe(name: str, folder: Path) -> str:
    """A line for a person: of which run it is, since when, and what is in it or wrong with it."""
    try:
        origin: dict[str, str] = read_json(folder / name, ORIGIN, {})
        rows = load(folder / name).rows
    except StoreError as error:
        return f"{name}: cannot be read: {error}"
    good = sum(row.rate is not None for row in rows)
    since = str(origin.get("kept", "?"))[:10]
    return (
        f"{name}: run {origin.get('run', '?')}, kept {since}, {good} of {len(rows)} points with a "
        f"number"
    )


def remove(name: str, folder: Path) -> None:
    """Removes a baseline; StoreError with those there are where it is none."""
    if name not in names(folder):
        raise StoreError(str(unknown("baseline", name, names(folder) or ["none is kept yet"])))
    with store_errors(folder / name, "removed"):
        shutil.rmtree(folder / name)


def open_run(name: str, runs: Path, folder: Path) -> Run:
    """The run, the baseline or the published table of that name.

    'run:NAME', 'baseline:NAME' and 'reference:NAME' say which. Raises StoreError where none or
    several have the name, with those there are.
    """
    kind, colon, rest = name.partition(":")
    if colon and kind in _KINDS:
        return _opened(kind, rest, runs, folder)
    fitting = [kind for kind in _KINDS if name in _there(kind, runs, folder)]
    if len(fitting) > 1:
        said = " and a ".join(fitting)
        ways = " or ".join(f"{kind}:{name}" for kind in fitting)
        raise StoreError(f"{quoted(name)} is a {said}: write {ways}")
    if not fitting:
        there = [one for kind in _KINDS for one in _there(kind, runs, folder)]
        raise StoreError(f"{unknown('run, baseline or reference', name, there)}; or give a path")
    return _opened(fitting[0], name, runs, folder)


def _there(kind: str, runs: Path, folder: Path) -> list[str]:
    return references() if kind == "reference" else names(folder if kind == "baseline" else runs)


def _opened(kind: str, name: str, runs: Path, folder: Path) -> Run:
    there = _there(kind, runs, folder)
    if name not in there:
        raise StoreError(str(unknown(kind, name, there or ["none yet"])))
    if kind == "reference":
        return reference(name)
    return load((folder if kind == "baseline" else runs) / name)
