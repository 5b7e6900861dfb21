"""MLflow: one experiment per run in a database file, one MLflow run per point."""

import logging
import os
import warnings
from pathlib import Path
from typing import Any

from bench.errors import error_line
from bench.notes import texts
from results.errors import StoreError
from results.exports.point import ExportPoint, export_points, legible, start_seconds
from results.run import Run
from results.run_folder import REPORT

# MLflow sends usage data unless this is set before the import.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # MLflow's own, about its dependencies
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.exceptions import MlflowException
    from mlflow.utils import validation
    from sqlalchemy.exc import SQLAlchemyError

_DATABASE = "mlflow.db"
_STATUS = {True: "FINISHED", False: "FAILED"}


def write(run: Run, folder: Path) -> list[Path]:
    """Add the run to mlflow/mlflow.db as an experiment; replace earlier exports.

    MLflow keeps deleted runs in its trash. Raises StoreError if MLflow rejects the folder.
    """
    home = (folder / "mlflow").resolve()
    if set(str(home)) & set("?#"):
        raise StoreError(
            error_line(
                home,
                expected="a path without '?' and '#', which MLflow rejects",
                fix="Choose another folder with --to FOLDER",
            )
        )
    home.mkdir(parents=True, exist_ok=True)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _fill(MlflowClient(tracking_uri=f"sqlite:///{home / _DATABASE}"), run, home)
    except (MlflowException, SQLAlchemyError) as error:
        problem = f"MLflow reported an error: {' '.join(str(error).split())}"
        raise StoreError(
            error_line(
                home / _DATABASE, problem=problem, fix="Check the address and the server's log"
            )
        ) from error
    return [home / _DATABASE]


def _fill(client: Any, run: Run, home: Path) -> None:
    experiment = _experiment(client, run, home)
    for old in client.search_runs([experiment], "tags.`mxscale.run` != ''", max_results=50_000):
        client.delete_run(old.info.run_id)
    points = export_points(run)
    standings = ", ".join(dict.fromkeys(point.standing for point in points))
    common = {
        "mxscale.run": run.name,
        "mxscale.commit": str(run.environment.get("commit", "")),
    }
    whole = client.create_run(
        experiment,
        run_name=legible(run.name),
        tags=_short(common | {"mxscale.standing": standings}),
    ).info.run_id
    for path in sorted((run.folder / REPORT).glob("*")):
        if path.is_file():
            client.log_artifact(whole, str(path), "report")
    client.set_terminated(whole, _STATUS[run.complete])
    for point in points:
        _add(client, experiment, point, common | {"mlflow.parentRunId": whole})


def _experiment(client: Any, run: Run, home: Path) -> str:
    name = legible(run.name)[: validation.MAX_EXPERIMENT_NAME_LENGTH]
    if known := client.get_experiment_by_name(name):
        return str(known.experiment_id)
    return str(client.create_experiment(name, artifact_location=(home / "artifacts").as_uri()))


def _add(client: Any, experiment: str, point: ExportPoint, tags: dict[str, str]) -> None:
    row = point.row
    # MLflow replaces a start of 0 by the current time.
    start = max(1, round(1000 * start_seconds(row.repeats[0], 0.0)))
    tags |= {
        "mxscale.standing": point.standing,
        "mxscale.status": row.status,
        "mxscale.quality": row.quality or "",
        "mxscale.quality_reasons": "; ".join(texts(row.quality_notes)),
        "mxscale.code": row.repeats[0].identity.code_hash,
        "mxscale.source": "; ".join(row.sources),
        "mlflow.note.content": row.note_text,
    }
    name = point.name if point.standing == "measured" else f"{point.name} [{point.standing}]"
    added = client.create_run(
        experiment, start_time=start, run_name=legible(name), tags=_short(tags)
    ).info.run_id
    fields = {
        name: " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in row.trial.fields.items()
    }
    longest = validation.MAX_PARAM_VAL_LENGTH
    client.log_batch(
        added,
        metrics=[Metric(key, value, start, 0) for key, value in point.figures.items()],
        params=[Param(key, legible(value)[:longest]) for key, value in fields.items()],
        tags=[RunTag(key, value) for key, value in _short(point.labels).items()],
    )
    end = start + round(1000 * point.figures.get("elapsed_seconds", 0.0))
    client.set_terminated(added, _STATUS[row.rate is not None], end)


def _short(tags: dict[str, str]) -> dict[str, str]:
    return {
        name: legible(value)[: validation.MAX_TAG_VAL_LENGTH]
        for name, value in tags.items()
        if value
    }
