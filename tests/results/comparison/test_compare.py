"""A comparison finds real differences only, and the same in both directions."""

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.notes import Note, NoteKind
from plots.tables.comparison import COLUMNS, markdown, remarks, table, verdict_counts
from results.comparison.compare import (
    Change,
    Comparison,
    compare,
    inconclusive_points,
    regressions,
)
from results.comparison.pairs import same_size
from results.comparison.references import reference
from results.errors import StoreError
from results.record import Record
from results.run import Run
from results.scaling import scaling
from tests.support.paths import GOLDEN
from tests.support.runs.comparisons import quiet, run
from tests.support.runs.records import record

pytestmark = pytest.mark.pythons

KEPT = GOLDEN / "compare.md"
MIRRORED = {"improved": "regressed", "lost": "new"}
MIRRORED |= {there: here for here, there in MIRRORED.items()}

windows = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8)
# Repeats of a point, and the points of a run: their devices decide which point they are.
point = st.lists(windows, min_size=1, max_size=3)
points = st.lists(point, min_size=1, max_size=6)


def of(name: str, found: Sequence[Sequence[Sequence[float]]], factor: float = 1.0) -> Run:
    """Return a run of points on 1, 2, ... devices, each with repeats of windows."""
    records = [
        record([[factor * seconds for seconds in one]], repeat=repeat, devices=devices)
        for devices, repeats in enumerate(found, 1)
        for repeat, one in enumerate(repeats)
    ]
    return run(name, *records)


def verdicts(found: Comparison) -> list[str]:
    return [one.verdict for one in found.changes]


@settings(deadline=None)
@given(points)
def test_a_run_against_itself_has_not_changed(found: list[list[list[float]]]) -> None:
    result = compare(of("a", found), of("b", found))
    assert set(verdicts(result)) == {"undecided"}
    assert all(one.ratio.value == 1 for one in result.changes)
    assert result.differences == ()


@settings(deadline=None)
@given(points, points)
def test_swapped_runs_give_the_mirrored_comparison(
    one: list[list[list[float]]], other: list[list[list[float]]]
) -> None:
    a, b = of("a", one), of("b", other)
    there = {change.trial: change for change in compare(b, a).changes}
    for here in compare(a, b).changes:
        back = there[here.trial]
        assert back.verdict == MIRRORED.get(here.verdict, here.verdict)
        if here.ratio is None:
            assert back.ratio is None
            continue
        assert back.ratio.value == pytest.approx(1 / here.ratio.value)
        if here.ratio.low is None:
            assert back.ratio.low is None
        else:
            assert back.ratio.low == pytest.approx(1 / here.ratio.high)
            assert back.ratio.high == pytest.approx(1 / here.ratio.low)
        assert back.detectable == (here.detectable and pytest.approx(here.detectable))


@settings(deadline=None)
@given(points, st.floats(0.01, 100))
def test_windows_that_all_last_longer_give_that_ratio(
    found: list[list[list[float]]], factor: float
) -> None:
    for change in compare(of("a", found), of("b", found, factor)).changes:
        assert change.ratio.value == pytest.approx(1 / factor)


def test_a_change_beyond_doubt_has_its_verdict() -> None:
    a = run("a", *quiet(), *quiet(devices=2))
    b = run("b", *quiet(1.05), *quiet(0.95, devices=2))
    assert verdicts(compare(a, b)) == ["regressed", "improved"]
    assert verdict_counts(compare(a, b)) == "2 points: 1 regressed, 1 improved"


def test_an_undecided_point_says_which_change_could_have_been_seen() -> None:
    (change,) = compare(run("a", *quiet()), run("b", *quiet(1.001))).changes
    assert change.verdict == "undecided"
    assert 0.003 < change.detectable < 0.02
    seen = 1 + 1.5 * change.detectable
    assert verdicts(compare(run("a", *quiet()), run("b", *quiet(seen)))) == ["regressed"]


def test_one_process_does_not_tell_how_processes_differ() -> None:
    a, b = run("a", *quiet(repeats=1)), run("b", *quiet(1.02, repeats=1))
    found = compare(a, b)
    assert verdicts(found) == ["undecided"]
    assert any(line.startswith("n = 1 in A and in B: ") for line in remarks(found))
    far = compare(a, run("b", *quiet(1.2, repeats=1)))
    assert verdicts(far) == ["regressed"]
    more = compare(run("a", *quiet()), run("b", *quiet(1.02)))
    assert verdicts(more) == ["regressed"]
    assert not any(line.startswith("n = 1") for line in remarks(more))


def test_a_single_figure_is_undecided_and_says_why() -> None:
    found = compare(run("a", record([[1.0, 1.0]])), run("b", *quiet(2.0)))
    (change,) = found.changes
    assert (change.verdict, change.detectable, change.ratio.low) == ("undecided", None, None)
    assert change.why == "single figure in A: variance unknown"


def test_points_without_a_number_are_lost_or_new() -> None:
    a = run("a", *quiet(), *quiet(devices=2), *quiet(devices=3))
    broken = record([[1.0, 1.0]], devices=2, status="failed")
    b = run("b", *quiet(), broken, *quiet(devices=4))
    found = compare(a, b)
    assert verdicts(found) == ["undecided", "lost", "lost", "new"]
    assert [one.why for one in found.changes[1:]] == ["B: failed: broken", "not in B", "not in A"]


def test_the_gate_takes_what_is_decided_and_what_is_lost() -> None:
    a = run("a", *quiet(), *quiet(devices=2), *quiet(devices=3))
    b = run("b", *quiet(1.02), *quiet(1.05, devices=2))
    found = compare(a, b)
    assert verdicts(found) == ["regressed", "regressed", "lost"]
    assert [one.trial.layout.devices for one in regressions(found, 0.03)] == [2, 3]
    assert [one.trial.layout.devices for one in regressions(found, 0.01)] == [1, 2, 3]


def test_points_in_which_a_loss_would_not_be_seen_are_told() -> None:
    same = compare(run("a", *quiet()), run("b", *quiet()))
    assert inconclusive_points(same, 0.001) == list(same.changes)
    assert inconclusive_points(same, 0.5) == []


def test_runs_without_a_point_in_common_are_refused() -> None:
    a, b = run("a", *quiet()), run("b", *quiet(devices=2))
    with pytest.raises(StoreError, match=r"same network, mode and number of devices in both runs"):
        compare(a, run("c", *quiet(devices=2, lr=0.5)))
    with pytest.raises(StoreError, match=r"same network, mode and number of devices in both runs"):
        compare(a, b, same_size)
    c = run("c", *quiet(lr=0.5, batch_per_device=16))
    (change,) = compare(a, c, same_size).changes
    assert list(map(str, change.settings)) == ["batch_per_device 8 → 16", "lr 0.01 (default) → 0.5"]


def test_unlike_runs_pair_the_most_alike_points() -> None:
    a = run("a", *quiet(devices=2), *quiet(devices=2, kvstore="dist_sync", devices_per_worker=2))
    b = run("b", *quiet(2.0, devices=2, kvstore="dist_sync", devices_per_worker=2, lr=0.5))
    first, alone = compare(a, b, same_size).changes
    assert (first.a.trial.layout.kvstore, first.b.trial.layout.kvstore) == (
        "dist_sync",
        "dist_sync",
    )
    assert (alone.trial.layout.kvstore, alone.verdict) == ("local", "lost")


def test_how_long_was_measured_makes_no_other_point() -> None:
    a, b = run("a", *quiet()), run("b", *quiet(windows=7, precision=0.5, budget_seconds=9.0))
    assert verdicts(compare(a, b)) == ["undecided"]


def test_a_published_table_differs_from_another_in_one_point() -> None:
    found = compare(reference("tutorial"), reference("upstream-readme"))
    changed = [one for one in found.changes if abs(one.ratio.value - 1) > 1e-9]
    assert [one.trial.name for one in changed] == ["resnet-152 dist_device_sync x1"]
    assert {one.name for one in found.forbidding} == {"measured by"}
    assert set(verdicts(found)) == {"undecided"}


def golden() -> Comparison:
    """Return one point per verdict, one with a single figure, a changed machine."""
    facts = {"processor": "P1", "cores": 2, "commit": "abc1234", "date": "2026-01-01T00:00:00"}
    a = run(
        "before",
        *quiet(),
        *quiet(devices=2),
        *quiet(devices=3, repeats=1),
        *quiet(devices=4),
        record([[1.0, 1.0]], devices=5),
        **facts,
    )
    b = run(
        "after",
        *quiet(1.05),
        *quiet(0.9, devices=2),
        *quiet(devices=3),
        record([[1.0, 1.0]], devices=4, status="hung"),
        *quiet(devices=5),
        *quiet(devices=6),
        **facts | {"processor": "P2 | <b>", "commit": "def5678", "numpy": "2"},
    )
    return compare(a, b)


def test_the_markdown_comparison_is_stable() -> None:
    assert markdown(golden()) == KEPT.read_text()


def test_the_csv_has_the_full_digits() -> None:
    found = golden()
    rows = list(csv.DictReader(io.StringIO(table(found))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["verdict"] for row in rows] == verdicts(found)
    assert float(rows[0]["ratio"]) == found.changes[0].ratio.value
    assert (rows[3]["b"], rows[3]["n_b"]) == ("", "0")


def test_what_the_runs_said_of_a_decided_point_is_told() -> None:
    a, b = run("a", *quiet()), run("b", *quiet(1.05))
    rows = [dataclasses.replace(row, message="on fire") for row in b.rows]
    said = remarks(compare(a, dataclasses.replace(b, rows=rows)))
    assert said[-1].endswith("note in B: on fire.")


def change(a: Record, b: Record) -> Change:
    """Return the verdict on a point that ran as `a` and as `b`."""
    runs = [
        Run(folder=Path(name), rows=scaling([one]), environment={})
        for name, one in (("a", a), ("b", b))
    ]
    (found,) = compare(runs[0], runs[1]).changes
    return found


OTHERS = Note(NoteKind.OTHER_PROGRAMS, {"cores": 1.3, "of": 2}, {"host": "vm"})


def ran(seconds: float, *notes: Note) -> Record:
    windows = [seconds * (1 + 0.001 * (n % 3)) for n in range(8)]
    return dataclasses.replace(record([windows]), notes=notes)


def test_half_the_speed_is_a_regression() -> None:
    assert change(ran(1.0), ran(2.0)).verdict == "regressed"


def test_a_process_measured_briefly_or_disturbed_decides_nothing() -> None:
    found = change(ran(0.01), ran(0.02))
    assert found.verdict == "undecided"
    assert found.why.startswith("A: n = 1, measured for 0.07 s; run more windows or repeats; B: ")
    assert change(ran(1.0), ran(2.0, OTHERS)).verdict == "doubtful"


COMMAND = ["fab", "bench.sweep", "mine.toml", "--again=failed", "--run=b"]


def doubtful() -> Comparison:
    """Return the comparison of a quiet run with one on a busy machine that is slower."""
    busy = [dataclasses.replace(one, notes=(OTHERS,)) for one in quiet(1.5)]
    return compare(
        run("a", *quiet(), *quiet(devices=2)),
        run("b", *busy, *quiet(1.5, devices=2), command=COMMAND),
    )


def test_a_change_with_a_doubtful_side_is_doubtful() -> None:
    found = doubtful()
    # The second point is doubtful by its baseline only, which its throughput does not need.
    assert verdicts(found) == ["doubtful", "regressed"]
    assert verdict_counts(found) == "2 points: 1 regressed, 1 doubtful"
    assert [one.trial.layout.devices for one in regressions(found, 0.03)] == [2]
    text = "\n".join(remarks(found))
    assert "alexnet local x1: doubtful in B: busy machine; note in B: vm: other programs" in text
    assert text.endswith(
        "B: doubtful: alexnet local x1 (busy machine). Measure again on an idle machine with "
        "'fab bench.sweep mine.toml --run=b --wait-idle 600 --again doubtful'."
    )
    rows = list(csv.DictReader(io.StringIO(table(found))))
    assert (rows[0]["verdict"], rows[0]["why"]) == ("doubtful", "doubtful in B: busy machine")


def test_a_simulation_and_an_equal_point_are_never_doubtful() -> None:
    busy = [dataclasses.replace(one, notes=(OTHERS,)) for one in quiet(1.5, engine="fake")]
    (change,) = compare(run("a", *quiet(engine="fake")), run("b", *busy)).changes
    assert change.verdict == "regressed"
    same = [dataclasses.replace(one, notes=(OTHERS,)) for one in quiet()]
    (change,) = compare(run("a", *quiet()), run("b", *same)).changes
    assert change.verdict == "undecided"
