"""Use of GPUs in summaries, CSV, exports and the page, by the counters of hosts."""

import csv
import dataclasses
import math
from typing import Any

import pytest

from plots.page.page import page
from plots.results_csv import RARE_COLUMNS, table_csv
from results.exports.point import export_points
from results.record import Record
from results.repeat import summarize
from results.scaling import scaling
from tests.support.pages.pages import details, run_of
from tests.support.runs.records import record

NAMES = ("gpu_utilization", "gpu_temperature", "gpu_clock")


def ran(*uses: Any, repeat: int = 0) -> Record:
    """Return a job with a worker and these counters of GPUs per host."""
    one = record([[1.0] * 4] * len(uses), devices=len(uses), kvstore="dist_sync", repeat=repeat)
    ranks = [dataclasses.replace(rank, host=f"n{rank.rank}") for rank in one.ranks]
    machines = {
        rank.host: [{"at": 1.0}, {"at": 9.0, "gpus": use}]
        for rank, use in zip(ranks, uses, strict=True)
    }
    return dataclasses.replace(one, ranks=tuple(ranks), machines=machines)


def used(utilization: Any, temperature: Any, clock: Any) -> dict[str, Any]:
    figures = {"utilization": utilization, "temperature": temperature, "clock": clock}
    return {"at": 8.0, "answers": 3, **figures}


MEASURED = ran(used(0.8, 61, 0.95), used(0.9, 72.0, 0.7))


def figures(*records: Record) -> list[float | None]:
    (row,) = scaling(records)
    return [getattr(row, name) for name in NAMES]


def test_a_point_has_mean_utilization_highest_heat_and_lowest_clock() -> None:
    assert figures(MEASURED) == [pytest.approx(0.85), 72.0, 0.7]
    other = ran(used(0.5, 80, 0.9), used(0.5, 80, 0.9), repeat=1)
    assert figures(MEASURED, other) == [pytest.approx(0.675), 80.0, 0.7]
    failed = dataclasses.replace(MEASURED, status="failed")
    assert figures(failed) == [None] * 3


@pytest.mark.parametrize(
    "value", [None, True, "1", -0.1, 1e300, 10**30, math.nan, math.inf, [], {}, "[N/A]"]
)
def test_a_damaged_figure_is_unknown(value: object) -> None:
    assert figures(ran(used(0.8, 61, 0.9), used(value, 61, 0.9))) == [None, 61.0, 0.9]
    assert figures(ran(used(0.8, value, 0.9), used(0.8, 61, value))) == [0.8, None, None]
    assert figures(ran(value)) == [None] * 3


@pytest.mark.parametrize("counters", [[], [{}], [{"gpu_utilization": 0.5}] * 2])
def test_records_without_the_figures_load(counters: Any) -> None:
    old = dataclasses.replace(MEASURED, machines={"n0": counters, "n1": counters})
    assert figures(old) == [None] * 3
    assert "gpu_utilization" not in table_csv(scaling([old]))


def test_csv_has_them_after_its_other_columns() -> None:
    assert RARE_COLUMNS[-3:] == NAMES
    (row,) = csv.DictReader(table_csv(scaling([MEASURED])).splitlines())
    assert [float(row[name]) for name in NAMES] == [pytest.approx(0.85), 72.0, 0.7]
    assert tuple(row)[-3:] == NAMES


def test_exports_have_those_that_are_known() -> None:
    (point,) = export_points(run_of(MEASURED))
    assert [point.figures[name] for name in NAMES] == [pytest.approx(0.85), 72.0, 0.7]
    (point,) = export_points(run_of(ran(used(None, 61, None))))
    assert point.figures.keys() & set(NAMES) == {"gpu_temperature"}


def test_the_details_of_a_point_name_those_that_are_known() -> None:
    (whole,) = _repeats(MEASURED)
    text_of = "busy for 85 % of the time, at most 72 °C, SM clock at least 70 % of its maximum"
    assert whole["gpus"] == f"GPUs {text_of}"
    (part,) = _repeats(ran(used(None, 61, None)))
    assert part["gpus"] == "GPUs at most 61 °C"
    (none,) = _repeats(ran(None))
    assert none["gpus"] == ""
    assert summarize(MEASURED).gpu_clock == 0.7


def _repeats(one: Record) -> list[dict[str, Any]]:
    (point,) = details(page(run_of(one)))
    found: list[dict[str, Any]] = point["repeats"]
    return found
