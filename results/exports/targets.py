"""Export targets: what a run can be written as, and the module that writes each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import SpecError, quoted
from bench.trial import chosen
from results.errors import StoreError

if TYPE_CHECKING:
    from results.run import Run

    Exporter = Callable[[Run, Path], list[Path]]

TARGETS = ("mllog", "tensorboard", "mlflow", "junit", "prometheus", "badge")
_OWN_PACKAGES = ("bench", "im2rec_tools", "results")


def target_names(text: str) -> list[str]:
    """The targets of 'badge,junit' or 'all'; SpecError for a name that is none."""
    if text == "all":
        return list(TARGETS)
    names = [name for name in text.split(",") if name]
    if not names or set(names) - set(TARGETS):
        raise SpecError(
            f"target: expected some of {', '.join(TARGETS)}, or all, got {quoted(text)}"
        )
    return list(dict.fromkeys(names))


def load_exporter(target: str) -> Exporter:
    """What writes the target; SpecError that says what to install where its library is missing."""
    try:
        module = importlib.import_module(f"results.exports.{target}")
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in _OWN_PACKAGES:
            raise
        raise SpecError(
            f"{target}: needs the Python package {error.name}, which is not installed; "
            f"'make exports' adds what exports need"
        ) from error
    write: Exporter = module.write
    return write


def export(run: Run, exporters: dict[str, Exporter], folder: Path) -> dict[str, list[Path]]:
    """Write each target into the folder; the paths by target. Raises StoreError."""
    written = {}
    for name, write in exporters.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            written[name] = write(run, folder)
        except OSError as error:
            at = error.filename or folder
            raise StoreError(f"{at}: cannot be written ({error.strerror or error})") from error
    return written


def with_points(run: Run, words: str) -> Run:
    """The run with the points of these words alone."""
    keys = {trial.key for trial in chosen([row.trial for row in run.rows], words)}
    return replace(run, rows=[row for row in run.rows if row.trial.key in keys], missing=())
