"""Export targets: output formats of a run, and the module that writes each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import SpecError, error_line, quoted
from bench.settings.point_names import chosen
from results.errors import StoreError
from results.exports import TARGETS

if TYPE_CHECKING:
    from results.run import Run

    Exporter = Callable[[Run, Path], list[Path]]

_OWN_PACKAGES = ("bench", "im2rec_tools", "results")


def target_names(text: str) -> list[str]:
    """Parse 'badge,junit' or 'all'; raise SpecError for an unknown target."""
    if text == "all":
        return list(TARGETS)
    names = [name for name in text.split(",") if name]
    if not names or set(names) - set(TARGETS):
        expected = f"one or more of {', '.join(TARGETS)}, or all"
        raise SpecError(error_line("target", expected=expected, got=quoted(text)))
    return list(dict.fromkeys(names))


def load_exporter(target: str) -> Exporter:
    """Return the target's writer; raise SpecError if its library is missing."""
    try:
        module = importlib.import_module(f"results.exports.{target}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in _OWN_PACKAGES:
            raise
        problem = f"the Python package {package} is not installed"
        fix = "Install it with 'make exports'"
        raise SpecError(error_line(target, problem=problem, fix=fix)) from error
    write: Exporter = module.write
    return write


def export(run: Run, exporters: dict[str, Exporter], folder: Path) -> dict[str, list[Path]]:
    """Write each target to the folder; return the paths by target. Raises StoreError."""
    written = {}
    for name, write in exporters.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            written[name] = write(run, folder)
        except OSError as error:
            at = error.filename or folder
            problem = f"cannot be written ({error.strerror or error})"
            raise StoreError(error_line(at, problem=problem)) from error
    return written


def with_points(run: Run, words: str) -> Run:
    """Return the run with only the points that these words select."""
    keys = {trial.key for trial in chosen([row.trial for row in run.rows], words)}
    return replace(run, rows=[row for row in run.rows if row.trial.key in keys], missing=())
