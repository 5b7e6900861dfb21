"""Stored predictions: written once, scored when their points are measured."""

import json
from pathlib import Path

import pytest

from results.comparison.references import reference
from results.prediction.calibration import (
    NO_PREDICTIONS,
    StoredPrediction,
    add,
    load_predictions,
    scored,
    stored,
)
from results.prediction.forecast import counts_up_to, predict
from results.prediction.limits import Limits
from results.prediction.series import series_of

ROWS = reference("tutorial").rows


def made(known: int = 16, devices: int = 64, servers: int | None = None) -> list[StoredPrediction]:
    (one,) = series_of(ROWS, "alexnet", known)
    limits = Limits(servers=servers)
    return stored(one, [predict(one, n, limits) for n in counts_up_to(one, devices)], limits)


def log(folder: Path) -> Path:
    return folder / "report" / "predictions.jsonl"


def test_predictions_are_read_as_written(tmp_path: Path) -> None:
    assert load_predictions(tmp_path, ROWS) == NO_PREDICTIONS
    lines = made()
    assert add(tmp_path, lines) == [log(tmp_path)]
    found = load_predictions(tmp_path, [])
    assert [one.prediction for one in found.scored] == lines
    assert [one.measured for one in found.scored] == [None, None]


def test_the_same_prediction_is_stored_once(tmp_path: Path) -> None:
    add(tmp_path, made())
    assert add(tmp_path, made()) == []
    add(tmp_path, made(devices=128))
    assert load_predictions(tmp_path, ROWS).lines == 3


def test_a_measured_point_scores_its_prediction(tmp_path: Path) -> None:
    add(tmp_path, made())
    first, second = load_predictions(tmp_path, ROWS).scored
    assert first.measured == pytest.approx(7945.57)
    assert first.error == pytest.approx(8314.8 / 7945.57 - 1, abs=1e-4)
    assert (first.holds(0.95), first.holds(0.80)) == (True, False)
    assert (second.holds(0.95), second.holds(0.80)) == (True, True)


def test_a_point_of_another_job_scores_nothing() -> None:
    others = [row for row in ROWS if row.trial.label != "alexnet"]
    assert [one.measured for one in scored(made(), others).scored] == [None, None]


def test_a_prediction_for_other_servers_is_not_scored() -> None:
    assert [one.measured for one in scored(made(servers=7), ROWS).scored] == [None, None]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "\udcff",
        '{"schema": 2}',
        json.dumps({"images_per_second": -1.0}),
        json.dumps({"images_per_second": 1e400}),
        json.dumps({"devices": 2.5}),
        json.dumps({"kind": "none"}),
    ],
)
def test_a_line_that_is_no_prediction_is_skipped(line: str, tmp_path: Path) -> None:
    add(tmp_path, made())
    good = log(tmp_path).read_text().splitlines()[0]
    with_fault = {**json.loads(good), **json.loads(line)} if ": " in line else line
    bad = json.dumps(with_fault) if isinstance(with_fault, dict) else line
    log(tmp_path).write_bytes(f"{bad}\n{good}\n".encode(errors="surrogateescape"))
    found = load_predictions(tmp_path, ROWS)
    assert len(found.scored) == 1
    assert found.lines == 2


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    add(tmp_path, made())
    moved = tmp_path / "elsewhere"
    log(tmp_path).rename(moved)
    log(tmp_path).symlink_to(moved)
    assert load_predictions(tmp_path, ROWS) == NO_PREDICTIONS


def test_a_report_can_show_the_first_predictions_only(tmp_path: Path) -> None:
    add(tmp_path, made())
    add(tmp_path, made(known=32, devices=256))
    assert len(load_predictions(tmp_path, ROWS, 2).scored) == 2


def test_a_fan_has_the_newest_predictions_from_the_same_points(tmp_path: Path) -> None:
    add(tmp_path, made())
    add(tmp_path, made(devices=128))
    (one,) = load_predictions(tmp_path, ROWS).fans
    assert [(each.known_devices, each.devices) for each in one] == [(16, 32), (16, 64), (16, 128)]
    add(tmp_path, made(known=32, devices=256))
    (one,) = load_predictions(tmp_path, ROWS).fans
    assert [(each.known_devices, each.devices) for each in one] == [(32, 64), (32, 128), (32, 256)]
    assert len(load_predictions(tmp_path, ROWS).distinct) == 6
