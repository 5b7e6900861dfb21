"""Reading with more and more threads: rows differ, a note names the saturation."""

import os
from dataclasses import replace
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

import tasks.bench
from bench.statistics.confidence import StandardError
from bench.sweep import Sweep
from bench.trial import Trial, make
from plots.figures.model import input_rows
from plots.figures.threads import draw
from plots.results_csv import results_frame
from plots.tables.scaling import cells, column_notes
from results.rates import Rate
from results.scaling import ScalingRow, knees

BASE: dict[str, Any] = {"mode": "test-io", "batch_per_device": 8, "data_train": "x.rec"}


def row(trial: Trial, rate: float, error: float = 0.005) -> ScalingRow:
    found = Rate(
        images_per_second=rate,
        error=StandardError(size=error, degrees_of_freedom=9),
        repeats=1,
        windows=10,
    )
    return ScalingRow(
        trial=trial, name=trial.name, status="ok", message="", rate=found, emulated=False
    )


def rows(rates: dict[int, float], **fields: Any) -> list[ScalingRow]:
    return [row(make({**BASE, **fields, "data_nthreads": n}), rate) for n, rate in rates.items()]


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (
            {1: 580, 2: 1116, 4: 1130, 8: 1090},
            "Throughput saturates at 2 threads (1,116 images/s).",
        ),
        ({1: 600, 2: 610}, "Throughput saturates at 1 thread (600 images/s)."),
        (
            {4: 2200, 1: 580, 2: 1116},
            "Throughput does not saturate up to 4 threads (2,200 images/s), the most measured.",
        ),
    ],
)
def test_the_knee_is_the_least_count_within_noise_of_the_best(
    rates: dict[int, float], said: str
) -> None:
    assert knees(rows(rates)) == [said]
    assert said in column_notes(rows(rates))


def test_rates_that_are_not_known_have_no_knee() -> None:
    wide = [row(make({**BASE, "data_nthreads": n}), 600 + n, error=0.1) for n in (1, 2)]
    assert knees(wide) == [
        "1 thread: 601 images/s; too uncertain to find where throughput saturates (95 % CI up to "
        "±23 %)."
    ]


def test_several_counts_are_drawn_and_one_is_not() -> None:
    drawn = input_rows([*rows({4: 2200, 1: 580, 2: 1116}), *rows({2: 5}, cold=True)])
    assert {name: [one.trial.data.nthreads for one in some] for name, some in drawn.items()} == {
        "not dropped": [1, 2, 4]
    }
    (axes,) = draw(drawn, "title", "footer").axes
    assert list(axes.get_xticks()) == [1, 2, 4]
    assert input_rows(rows({4: 2200})) == {}


def test_one_count_has_no_knee_and_failed_points_none() -> None:
    assert knees(rows({4: 100})) == []
    failed = replace(rows({2: 1})[0], rate=None, status="failed")
    assert knees([*rows({4: 100}), failed]) == []


def test_cold_and_warm_reading_are_series_of_their_own() -> None:
    both = [*rows({1: 50, 2: 51}, cold=True), *rows({1: 100, 2: 200})]
    assert [one.partition(" image")[0] for one in knees(both)] == [
        "Throughput saturates at 1 thread (50",
        "Throughput does not saturate up to 2 threads (200",
    ]


def test_rows_of_thread_counts_can_be_told_apart_everywhere() -> None:
    found = [*rows({1: 1, 2: 2}), *rows({2: 2}, cold=True)]
    labels = ["input, 1 thread", "input, 2 threads", "input, 2 threads, cold"]
    assert [one.trial.label for one in found] == labels
    assert [cells(one)[0] for one in found] == labels
    table = results_frame(found)
    assert table["network"].tolist() == ["input"] * 3
    columns = zip(table["data_nthreads"], table["cold"], strict=True)
    assert list(columns) == [(1, False), (2, False), (2, True)]
    names = ["test-io 1 thread x1", "test-io 2 threads x1", "test-io 2 threads cold x1"]
    assert [one.trial.name for one in found] == names


def test_the_task_takes_a_row_for_each_thread_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sweep] = []
    monkeypatch.setattr(tasks.bench, "measure_here", lambda what, run: asked.append(what))
    task: Any = tasks.bench.bench_io
    given = {"image_shape": "3,224,224"}
    task.body(Context(), "x.rec", nthreads="4,1,4", cold=True, **given)
    assert [(one.data.nthreads, one.mxnet.cold) for one in asked[0].trials] == [
        (4, True),
        (1, True),
    ]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(6))
    task.body(Context(), "x.rec", **given)
    assert [one.data.nthreads for one in asked[1].trials] == [1, 2, 4, 6]
    task.body(Context(), "x.rec", readers="3", **given)
    assert [(one.data.nthreads, one.workers) for one in asked[2].trials] == [(1, 3), (2, 3)]
    for wrong in ("1,,2", "0", "many"):
        with pytest.raises(Exit) as caught:
            task.body(Context(), "x.rec", nthreads=wrong, **given)
        assert caught.value.code == 2
