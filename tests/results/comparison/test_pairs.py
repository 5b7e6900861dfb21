"""Points pair by themselves if the same setting changes in each."""

import dataclasses
from typing import Any

import pytest

from plots.tables.comparison import heading
from results.comparison.compare import compare
from results.comparison.pairs import pair_changed, setting_changes
from results.errors import StoreError
from results.record import Record
from tests.support.programs.jobs import trial
from tests.support.runs.comparisons import quiet, run

DIST = {"kvstore": "dist_sync", "devices_per_worker": 1}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return list(map(str, setting_changes(trial(**before), trial(**after))))


def reporting(threads: str, records: list[Record]) -> list[Record]:
    """Return the records of workers that report this OMP_NUM_THREADS."""
    facts = {"variables": {"OMP_NUM_THREADS": threads}}
    return [
        dataclasses.replace(one, ranks=(dataclasses.replace(one.ranks[0], facts=facts),))
        for one in records
    ]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"dtype": "bfloat16"}, ["dtype float32 (default) → bfloat16"]),
        ({"dtype": "bfloat16"}, {}, ["dtype bfloat16 → float32 (default)"]),
        ({"data_nthreads": 4}, {"data_nthreads": 8}, ["data_nthreads 4 (default) → 8"]),
        ({"batch_per_device": 4}, {"batch_per_device": 8}, ["batch_per_device 4 → 8"]),
        (
            {"kvstore": "dist_sync"},
            {"gc_type": "2bit", "kvstore": "dist_sync"},
            ["gc_type none (default) → 2bit"],
        ),
        ({}, {"env": ["A=1"]}, ["A unset → 1"]),
        ({"env": ["A=1", "B=2"]}, {"env": ["B=3", "A=1"]}, ["B 2 → 3"]),
        ({"env": ["A=1"]}, {"env": ["B=1"]}, ["A 1 → unset", "B unset → 1"]),
        ({}, {"env": ["MY_TOKEN=xyz"]}, ["MY_TOKEN unset → ***"]),
        ({}, {"options": ["--disp-batches=1"]}, ["--disp-batches unset → 1"]),
        ({"emulate": True}, {}, ["emulate true → false (default)"]),
        (
            {"network": "resnet", "num_layers": 18},
            {"network": "alexnet"},
            ["network resnet-18 → alexnet"],
        ),
        # The devices per worker and the images' shape follow from these.
        ({"kvstore": "local"}, {"kvstore": "dist_sync"}, ["kvstore local (default) → dist_sync"]),
        ({"devices": 1}, {"devices": 2}, ["devices 1 (default) → 2"]),
        ({"windows": 3}, {"windows": 5}, []),
    ],
)
def test_a_change_has_the_name_and_both_values(
    before: dict[str, Any], after: dict[str, Any], said: list[str]
) -> None:
    assert changes(before, after) == said


def test_all_points_with_the_same_change_are_paired() -> None:
    points: list[dict[str, Any]] = [{}, {"devices": 2}, {"devices": 2, **DIST}]
    a = run("a", *(one for more in points for one in quiet(**more)))
    b = run("b", *(one for more in points for one in quiet(1.1, env=["X=1"], **more)))
    found = compare(a, b)
    assert [one.verdict for one in found.changes] == ["regressed"] * 3
    names = [(one.a.trial.name, one.b.trial.name) for one in found.changes if one.a and one.b]
    assert [before == after for before, after in names] == [True] * 3
    assert heading(found) == "X unset → 1: b (B) vs a (A)"


def test_a_variable_that_the_launcher_sets_has_its_value() -> None:
    a = run("a", *reporting("1", quiet()))
    b = run("b", *reporting("2", quiet(1.1, env=["OMP_NUM_THREADS=2"])))
    found = compare(a, b)
    assert str(found.subject) == "OMP_NUM_THREADS 1 (default) → 2"
    assert found.forbidding == ()
    assert str(compare(b, a).subject) == "OMP_NUM_THREADS 2 → 1 (default)"


def test_a_variable_that_no_point_sets_is_still_a_difference() -> None:
    a, b = (run(name, *reporting(name, quiet())) for name in "12")
    assert [str(one) for one in compare(a, b).forbidding] == ["OMP_NUM_THREADS (1 / 2)"]


def test_two_different_changes_pair_nothing() -> None:
    a = run("a", *quiet(), *quiet(devices=2))
    b = run("b", *quiet(lr=0.5), *quiet(devices=2, seed=7))
    assert pair_changed(a.rows, b.rows) == []
    with pytest.raises(StoreError, match=r"got lr .* in alexnet local x1 and seed .* → 7 in alex"):
        compare(a, b)
    rates = run("b", *quiet(lr=0.5), *quiet(lr=0.1))
    assert pair_changed(run("a", *quiet()).rows, rates.rows) == []


def test_equal_points_are_paired_first() -> None:
    a, b = run("a", *quiet()), run("b", *quiet(), *quiet(lr=0.5))
    found = compare(a, b)
    assert found.subject is None
    assert [one.verdict for one in found.changes] == ["undecided", "new"]
