"""How a point is run again: by the harness, and process by process."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from results.run import Run
from results.scaling import ScalingRow


def command(run: Run, row: ScalingRow) -> str:
    """The harness's command that measures the point again; '' where the run kept no sweep."""
    sweep = run.folder / "sweep.toml"
    if not sweep.is_file():
        return ""
    words = ("fab", "bench.sweep", _from_here(sweep), "--point", row.trial.name)
    # A rehearsal of a sweep that names the real engine.
    engine = ("--engine", "fake") if row.trial.engine == "fake" else ()
    return shlex.join([*words, *engine, "--run", f"{run.name}-again"])


def _from_here(path: Path) -> str:
    """The path as fab takes it, which runs in the checkout."""
    whole, here = path.resolve(), Path.cwd()
    return str(whole.relative_to(here) if whole.is_relative_to(here) else whole)


def processes(commands: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """(process, its command line, how many more have its role), for the first of each role."""
    roles: dict[str, list[str]] = {}
    for process in sorted(commands, key=_number):
        roles.setdefault(process.rpartition("-")[0] or process, []).append(process)
    return [(group[0], commands[group[0]], len(group) - 1) for group in roles.values()]


def _number(process: str) -> int:
    last = process.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0
