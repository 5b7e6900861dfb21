"""MLflow reads exported runs."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.runs.exports import REHEARSED, bad, good, needed, repeat, run_of

NAME = "run & <b>"

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own, about libraries below it


@pytest.fixture(scope="module")
def mlflow() -> Any:
    """Import the exporter, which takes seconds, only if a test runs."""
    return needed("mlflow")


@pytest.fixture(scope="module")
def client(mlflow: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return MLflow's client of a store with two runs, the first exported twice."""
    folder = tmp_path_factory.mktemp("mlflow")
    run = run_of(folder / NAME, good() + bad())
    (run.folder / "report").mkdir()
    (run.folder / "report" / "report.md").write_text("# report\n")
    rehearsed = run_of(folder / "rehearsed", [repeat([[1, 1.0, 1.0]], **REHEARSED)])
    for one in (run, run, rehearsed):
        (database,) = mlflow.write(one, folder)
    return mlflow.MlflowClient(tracking_uri=f"sqlite:///{database}")


def runs(client: Any, experiment: str) -> dict[str, Any]:
    known = client.get_experiment_by_name(experiment).experiment_id
    found = client.search_runs([known])
    names = {one.info.run_name: one for one in found}
    assert len(names) == len(found)
    return names


def test_points_have_params_metrics_and_tags(client: Any) -> None:
    two = runs(client, NAME)["alexnet local x2"]
    assert two.data.metrics["images_per_second"] == pytest.approx(16 / 1.3)
    assert two.data.metrics["efficiency_device"] == pytest.approx(8 / 1.3 / 8)
    assert (two.data.params["devices"], two.data.params["kvstore"]) == ("2", "local")
    assert (two.data.tags["mxscale.standing"], two.info.status) == ("measured", "FINISHED")
    assert two.info.end_time - two.info.start_time == 19_000


def test_a_failed_point_has_failed_and_says_why(client: Any) -> None:
    failed = runs(client, NAME)["vgg-16 local x1"]
    assert failed.info.status == "FAILED"
    assert failed.data.tags["mlflow.note.content"].startswith("<script>\ufffd]]>")
    assert "images_per_second" not in failed.data.metrics


def test_points_stand_below_a_run_that_has_the_report(client: Any) -> None:
    found = runs(client, NAME)
    whole = found.pop(NAME).info.run_id
    assert {one.data.tags["mlflow.parentRunId"] for one in found.values()} == {whole}
    paths = [one.path for one in client.list_artifacts(whole, "report")]
    assert paths == ["report/report.md"]


def test_an_export_takes_the_place_of_the_one_before(client: Any) -> None:
    names = ["alexnet local x1", "alexnet local x2", NAME, "vgg-16 local x1"]
    assert sorted(runs(client, NAME)) == names


def test_a_rehearsal_says_so(client: Any) -> None:
    found = runs(client, "rehearsed")
    assert {one.data.tags["mxscale.standing"] for one in found.values()} == {"rehearsal"}
    assert "alexnet local x1 [rehearsal]" in found


def test_a_folder_that_mlflow_cannot_name_is_refused(mlflow: Any, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", good())
    with pytest.raises(mlflow.StoreError, match="expected a path without"):
        mlflow.write(run, tmp_path / "what?")


def test_a_file_that_is_no_store_is_refused_in_one_line(mlflow: Any, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", good())
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow" / "mlflow.db").write_text("not a database" * 1000)
    with pytest.raises(mlflow.StoreError, match=r"mlflow\.db: MLflow reported an error") as caught:
        mlflow.write(run, tmp_path)
    assert "\n" not in str(caught.value)


def test_mlflow_is_told_not_to_report_to_its_makers(mlflow: Any) -> None:
    from mlflow.environment_variables import MLFLOW_DISABLE_TELEMETRY  # noqa: PLC0415

    assert mlflow.write
    assert MLFLOW_DISABLE_TELEMETRY.get()
