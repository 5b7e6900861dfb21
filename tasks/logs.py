"""hosts.logs: what the processes of a trial printed, wherever they ran."""

import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import brief, parse_int, quoted
from im2rec_tools.terminal import echo
from launch.hosts import ROOT
from launch.remote.errors import LaunchError
from results.errors import StoreError
from tasks.door import reader, task
from tasks.report import RUNS, run_folder

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from results.record import Identity


@task(
    help={
        "run": "name below results/runs, or a path; default: the newest that has logs",
        "point": "of the points whose name has these words, 'alexnet x32', the one that ran last",
        "repeat": "which repeat of it, from 1; default: the last that ran",
        "lines": "how many of each log",
        "process": "only of this one: worker-1",
    },
)
@reader
def hosts_logs(  # type: ignore[no-untyped-def]
    c, run="", point="", repeat="", lines="20", process=""
):
    """Print the ends of the logs of a trial's processes, each with its host."""
    from launch.job.logs import files_of, lines_of
    from results.run_folder import hosts_of

    count = parse_int("--lines", lines)
    folder = run_folder(run) if run else _newest_run()
    name, logs = _trial(folder, point, parse_int("--repeat", repeat) if repeat else None)
    hosts = hosts_of(logs)
    if process and process not in hosts:
        raise LaunchError(
            f"--process: expected one of the job's {len(hosts)} processes, such as "
            f"{next(reversed(hosts), 'worker-0')}, got {quoted(process)}"
        )
    echo(f"# {name.name}, repeat {name.repeat + 1}: {_shown(logs)}")
    damaged = []
    for one in [process] if process else hosts:
        files = " ".join(path.name for path in files_of(logs, one))
        echo("", f"# {hosts[one]} {one}: {files or 'printed nothing'}")
        try:
            echo(*deque(lines_of(logs, one), maxlen=count))
        except OSError as error:
            damaged.append(f"{one}: {brief(error)}")
    if damaged:
        raise StoreError(f"{_shown(logs)}: some logs cannot be read: {'; '.join(damaged[:3])}")


def _trial(folder: Path, words: str, repeat: int | None) -> "tuple[Identity, Path]":
    """The trial that was chosen, of those whose logs the run has, and where these are."""
    from results.run import identities
    from results.run_folder import HOSTS

    names = {(name.key, str(name.repeat)): name for name in identities(folder)}
    found = {
        path.parent: names[path.parts[-3], path.parts[-2]]
        for path in folder.glob(f"logs/*/*/{HOSTS}")
        if (path.parts[-3], path.parts[-2]) in names
    }
    if not found:
        raise StoreError(f"{folder}: has no logs")
    wanted = [
        path
        for path, name in found.items()
        if set(words.split()) <= set(name.name.split()) and repeat in {None, name.repeat + 1}
    ]
    if not wanted:
        asked = " and ".join([repr(words)] * bool(words) + [f"repeat {repeat}"] * bool(repeat))
        known = ", ".join(sorted({name.name for name in found.values()}))
        raise StoreError(f"{folder}: no point with logs has {asked}; those with logs: {known}")
    newest = max(wanted, key=lambda path: _began(path / HOSTS))
    return found[newest], newest


def _newest_run() -> Path:
    from results.run_folder import HOSTS

    found = list(RUNS.glob(f"*/logs/*/*/{HOSTS}"))
    if not found:
        raise StoreError(f"{RUNS}: no run has logs yet; 'fab bench.sweep' makes one")
    return max(found, key=_began).parents[3]


def _began(path: Path) -> float:
    return path.stat().st_mtime


def _shown(path: Path) -> str:
    return os.fspath(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
