"""results.export: a run in the formats of other people's tools."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import SpecError, quoted
from im2rec_tools.terminal import echo
from launch.hosts import ROOT
from results.errors import StoreError
from tasks.door import door, task
from tasks.report import run_folder

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from results.run import Run

    Exporter = Callable[[Run, Path], list[Path]]

TARGETS = ("mllog", "tensorboard", "mlflow", "junit", "prometheus", "badge")
OURS = ("bench", "im2rec_tools", "results")


@task(
    help={
        "target": f"{', '.join(TARGETS)}; several with commas between, or all",
        "run": "name below results/runs, or a path; default: the newest",
        "to": "folder for what is written; default: report/exports of the run",
        "point": "only the points whose name has these words: 'resnet-152 x256'",
        "speedup_baseline": "'KVSTORE xN': also speed-up and efficiency against this point",
    },
)
@door
def results_export(  # type: ignore[no-untyped-def]
    c, target, run="", to="", point="", speedup_baseline=""
):
    """Write a run for MLPerf's tools, TensorBoard, MLflow, JUnit, Prometheus or as a badge."""
    from results.run import load, with_baseline

    exporters = {name: _exporter(name) for name in _targets(target)}
    wanted = with_baseline(load(run_folder(run)), speedup_baseline)
    if point:
        wanted = _only(wanted, point)
    folder = Path(to).expanduser() if to else wanted.folder / "report" / "exports"
    export(wanted, exporters, folder)


def export(run: Run, exporters: dict[str, Exporter], folder: Path) -> None:
    """Writes each target into the folder and prints the paths; StoreError where it cannot be."""
    written = []
    for name, write in exporters.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            paths = write(run, folder)
        except OSError as error:
            at = error.filename or folder
            raise StoreError(f"{at}: cannot be written ({error.strerror or error})") from error
        if not paths:
            echo(f"{name}: nothing to write, no training point has a number")
        written += paths
    for path in written:
        echo(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    if not written:
        raise StoreError(f"{run.folder}: no training point has a number; nothing was exported")


def _targets(text: str) -> list[str]:
    if text == "all":
        return list(TARGETS)
    names = [name for name in text.split(",") if name]
    if not names or set(names) - set(TARGETS):
        raise SpecError(
            f"target: expected some of {', '.join(TARGETS)}, or all, got {quoted(text)}"
        )
    return list(dict.fromkeys(names))


def _exporter(target: str) -> Exporter:
    """What writes the target; SpecError that says what to install where its library is missing."""
    try:
        module = importlib.import_module(f"results.exports.{target}")
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in OURS:
            raise
        raise SpecError(
            f"{target}: needs the Python package {error.name}, which is not installed; "
            f"'make exports' adds what exports need"
        ) from error
    write: Exporter = module.write
    return write


def _only(run: Run, words: str) -> Run:
    """The run with the points of these words alone."""
    from bench.trial import chosen

    keys = {trial.key for trial in chosen([row.trial for row in run.rows], words)}
    return replace(run, rows=[row for row in run.rows if row.trial.key in keys], missing=())
