"""How a point is run again: by the harness, and process by process."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from results.run import Run
from results.scaling import ScalingRow


def command(run: Run, row: ScalingRow) -> str:
    """The harness's command that measures the point again; '' where the run kept no sweep.

    It is for the checkout; a run that lies elsewhere is called RUN there.
    """
    if not _sweep(run).is_file():
        return ""
    sweep = "RUN/sweep.toml" if is_elsewhere(run) else str(_sweep(run).relative_to(Path.cwd()))
    words = (".venv/bin/fab", "bench.sweep", sweep, "--point", row.trial.name)
    # A rehearsal of a sweep that names the real engine.
    engine = ("--engine", "fake") if row.trial.engine == "fake" else ()
    return shlex.join([*words, *engine, "--run", f"{run.name}-again"])


def is_elsewhere(run: Run) -> bool:
    """Whether the run kept a sweep, and lies outside the checkout, where fab runs."""
    return _sweep(run).is_file() and not _sweep(run).is_relative_to(Path.cwd())


def _sweep(run: Run) -> Path:
    return run.folder.resolve() / "sweep.toml"


def processes(commands: Mapping[str, str]) -> list[tuple[str, str, int]]:
    """(process, its command line, how many more have its role), for the first of each role."""
    roles: dict[str, list[tuple[int, str]]] = {}
    for process in commands:
        role, _, last = process.rpartition("-")
        number = int(last) if last.isdecimal() else 0
        roles.setdefault(role or process, []).append((number, process))
    firsts = sorted((min(group), len(group) - 1) for group in roles.values())
    return [(name, commands[name], more) for (_, name), more in firsts]
