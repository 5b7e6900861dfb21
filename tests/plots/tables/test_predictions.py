"""Predictions in words, tables and predictions.csv."""

import csv
import io
from dataclasses import replace

import pytest

from plots.tables.predictions import (
    calibration,
    count_sentence,
    markdown,
    sentences,
    table_csv,
    terminal,
    title,
)
from results.comparison.references import reference
from results.prediction.calibration import NO_PREDICTIONS, Predictions, scored, stored
from results.prediction.forecast import largest_count, next_point, predict
from results.prediction.limits import Limits
from results.prediction.series import Series, series_of

ROWS = reference("tutorial").rows


def published(known: int = 16) -> Series:
    (one,) = series_of(ROWS, "alexnet", known)
    return one


def text(limits: Limits, known: int = 16, devices: int = 256) -> str:
    one = published(known)
    found = [predict(one, devices, limits)]
    return "\n".join(sentences(one, found, limits, next_point(one, devices, limits)))


def predictions(known: int = 16, devices: int = 32) -> Predictions:
    one = published(known)
    return scored(stored(one, [predict(one, devices, Limits())], Limits()), ROWS)


def test_every_prediction_is_called_one() -> None:
    assert title(published()) == (
        "PREDICTION, not measured: alexnet dist_device_sync, batch 512 per device, from 1 to 16 "
        "devices (1 host)"
    )
    assert "**PREDICTION, not measured.**" in markdown(predictions())
    assert count_sentence(published(), 0.5, 224).startswith("PREDICTION, not measured")
    table = terminal(published(), [predict(published(), 256, Limits())])
    assert str(table.title).startswith("PREDICTION, not measured")


def test_a_table_has_both_intervals_beside_constant_efficiency() -> None:
    table = terminal(published(), [predict(published(), 256, Limits())])
    cells = [next(iter(column.cells)) for column in table.columns]
    assert cells[:3] == ["256", "16", "63,159"]
    assert cells[-1] == "67,907"
    assert [str(column.header) for column in table.columns][3:5] == [
        "80 % interval",
        "95 % interval",
    ]


def test_ceilings_that_nobody_measured_are_listed() -> None:
    found = text(Limits())
    assert "Ceilings not measured: network link (give --bandwidth 25Gb, or run" in found
    assert "servers (run 'fab bench.bandwidth" in found
    assert "Ceilings not measured" not in text(Limits(link=3e9, servers=4))
    assert "Ceilings not measured: servers" in text(Limits(link=3e9))


def test_a_ceiling_that_caps_is_named() -> None:
    assert "* Capped by the servers on 256 devices." in text(Limits(link=125e6, servers=1))


def test_a_heavy_job_on_one_host_asks_for_two() -> None:
    assert "Measure two hosts" in text(Limits(link=1e8))
    assert "Measure two hosts" not in text(Limits(link=1e8), known=32)
    assert "Measure two hosts" not in text(Limits())


def test_a_kvstore_of_one_host_has_a_caveat_beyond_it() -> None:
    one = published()
    rows = tuple(
        replace(row, trial=row.trial.replace(kvstore="device"), repeats=row.repeats)
        for row in one.rows
    )
    local = replace(one, rows=rows)
    said = [*sentences(local, [predict(local, 256, Limits())], Limits(), None)]
    assert any(line.startswith("Caveat: device works on one host only;") for line in said)
    assert "works on one host" not in text(Limits())


def test_the_basis_names_the_published_tables() -> None:
    assert text(Limits()).startswith(
        "Light exchange: pushing and pulling all gradients takes 0.18 of the computing time at "
        "2 GB/s. Of 51 points of 19 published tables like it, 90 % were predicted within 5 %."
    )


def test_the_next_point_is_named_with_its_gain() -> None:
    assert "Most useful next point: 2 hosts (32 devices)." in text(Limits(link=1e8))
    assert "Most useful next point: the prediction itself, 32 devices." in text(Limits(), 16, 32)


def test_the_most_devices_of_an_efficiency_are_printed() -> None:
    one = published()
    assert "up to 224 devices keep an efficiency of 50 %" in count_sentence(
        one, 0.5, largest_count(one, 0.5, Limits())
    )
    assert count_sentence(one, 0.9, None).endswith("The largest measured count that does: 2.")
    assert "up to 10000 devices, the most that mxscale supports," in count_sentence(
        one, 0.1, 10_000
    )


def test_a_measured_prediction_is_scored_in_one_sentence() -> None:
    assert calibration(predictions()) == [
        "alexnet dist_device_sync x32 from x16: predicted 8,315, measured 7,946: inside 95 %, "
        "outside 80 %."
    ]
    both = Predictions(scored=(*predictions().scored, *predictions(32, 64).scored))
    assert calibration(both)[-1] == (
        "Of 2 measured predictions, 1 are inside the 80 % interval and 2 inside the 95 % interval."
    )


def test_the_csv_has_a_row_per_prediction_with_its_score() -> None:
    (row,) = csv.DictReader(io.StringIO(table_csv(predictions())))
    assert (row["network"], row["devices"], row["known_devices"]) == ("alexnet", "32", "16")
    assert float(row["images_per_second"]) == pytest.approx(8314.8, abs=0.1)
    assert float(row["measured"]) == pytest.approx(7945.57)
    assert (row["inside_80"], row["inside_95"]) == ("False", "True")
    assert float(row["low_95"]) < float(row["low_80"]) < float(row["constant"])


def test_a_report_without_predictions_has_no_section() -> None:
    assert markdown(NO_PREDICTIONS) == ""
