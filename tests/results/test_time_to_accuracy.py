"""Time to the stop accuracy, from records to tables, CSV and exports."""

import csv
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from bench.notes import NoteKind
from plots.results_csv import results_frame, table_csv
from plots.summary import key_items, summary, summary_items
from plots.tables.scaling import (
    column_notes,
    failure_items,
    filled_table,
    point_notes,
    short_table,
    show,
)
from results.record import Record, Validation, emit, parse
from results.scaling import scaling
from results.worker_log import validations_of
from tests.support.runs.exports import needed, repeat, run_of

TARGET = {"mode": "real", "data_train": "t", "data_val": "v", "num_epochs": 5}
TARGET |= {"num_classes": 10, "num_examples": 100, "stop_accuracy": 0.9}


def trained(
    number: int, seconds: float, epochs: int, accuracy: float = 0.95, **fields: Any
) -> Record:
    """Return a repeat that ended with this validation; failed if it missed the target."""
    status = "ok" if accuracy > 0.9 else "failed"
    one = repeat([[1.0, 1.3, 1.3]], repeat=number, status=status, **TARGET | fields)
    first = Validation(epochs=1, accuracy=0.5, seconds=2.0)
    last = Validation(epochs=epochs, accuracy=accuracy, seconds=seconds)
    return dataclasses.replace(one, accuracy=accuracy, validations=(first, last))


REACHED = [trained(0, 10.0, 3), trained(1, 12.0, 4)]
SOME = [*REACHED, trained(2, 20.0, 5, 0.8)]
HALF_WIDTH = 12.7062 * math.sqrt(2) / math.sqrt(2)  # Student's t for 1 degree, two repeats


def csv_row(records: list[Record]) -> dict[str, str]:
    (row,) = csv.DictReader(table_csv(scaling(records)).splitlines())
    return row


def test_a_record_keeps_its_validations_and_older_ones_have_none() -> None:
    assert parse(emit(REACHED[0])) == REACHED[0]
    older = dataclasses.replace(REACHED[0], validations=())
    assert "validations" not in emit(older)
    assert parse(emit(older)) == older


@pytest.mark.parametrize("bad", [{"accuracy": 1.5}, {"seconds": -1.0}, {"seconds": math.nan}])
def test_a_record_with_an_impossible_validation_is_rejected(bad: dict[str, Any]) -> None:
    one = dataclasses.replace(REACHED[0].validations[0], **bad)
    with pytest.raises(ValueError, match="validations: expected"):
        parse(emit(dataclasses.replace(REACHED[0], validations=(one,))))


def test_the_slowest_rank_ends_a_validation() -> None:
    ranks = [
        [{"epoch": 0, "correct": 1, "total": 4, "seconds": 3.0}],
        [{"epoch": 0, "correct": 3, "total": 4, "seconds": 3.5}],
    ]
    assert validations_of(ranks) == (Validation(epochs=1, accuracy=0.5, seconds=3.5),)
    assert validations_of([ranks[0], [{"correct": 3, "total": 4}]]) == ()  # older events
    assert validations_of([ranks[0], []]) == ()


def test_mean_and_interval_are_of_the_repeats_that_reached_it() -> None:
    (row,) = scaling(SOME)
    found = row.time_to_accuracy
    assert found is not None
    assert (found.seconds, found.epochs) == (11.0, 3.5)
    assert (len(found.reached), found.repeats) == (2, 3)
    assert found.half_width == pytest.approx(HALF_WIDTH, rel=1e-3)
    assert found.interval is not None
    assert found.interval[0] == 0  # a time is not negative


def test_points_without_a_target_or_times_have_none() -> None:
    assert scaling([repeat([[1.0, 1.3, 1.3]])])[0].time_to_accuracy is None
    older = [dataclasses.replace(one, validations=()) for one in SOME]
    assert scaling(older)[0].time_to_accuracy is None
    assert "time to accuracy" not in filled_table(scaling(older))[0]
    assert "to_accuracy" not in table_csv(scaling(older))


def test_the_table_has_time_and_epochs() -> None:
    names, (cells,) = filled_table(scaling(SOME))
    shown = dict(zip(names, cells, strict=True))
    assert shown["time to accuracy"] == "11.0 ± 12.7 s (2 of 3)"
    assert shown["epochs"] == "3.50"
    assert shown["status"] == "failed"
    assert any(one.startswith("time to accuracy, epochs:") for one in column_notes(scaling(SOME)))


def test_the_short_table_has_a_column_for_each_target() -> None:
    other = [repeat([[1.0, 1.3, 1.3]], **TARGET | {"stop_accuracy": 0.25, "network": "vgg"})]
    later = dataclasses.replace(other[0], validations=REACHED[0].validations)
    names, found = short_table(scaling([*SOME, later]))
    at = names.index("to 0.25")
    assert names[at + 1] == "to 0.9"
    assert [row[at : at + 2] for row in found] == [
        ["", "11.0 ± 12.7 s (2 of 3)"],
        ["10.0 s (1 of 1)", ""],
    ]
    assert not any(
        one.startswith("to ") for one in short_table(scaling([repeat([[1.0, 1.3, 1.3]])]))[0]
    )


@pytest.mark.parametrize("parts", [(), ("wide",)])
def test_80_columns_keep_the_time(
    parts: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    two = [trained(number, 10.0 + number, 3, devices=2) for number in range(3)]
    show(run_of(tmp_path / "run", [*REACHED, *two]), parts=parts)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "11.0 ± 2.48 s (3 of 3)" in text


def test_the_summary_begins_with_the_time_to_accuracy(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", SOME)
    first = "alexnet local real x1 exceeded accuracy 0.9 in 2 of 3 repeats, after 11.0 s on average"
    assert summary(run).startswith(f"{first} (95 % CI 0 to 23.7 s). ")
    assert "performance claim" not in summary(run)
    assert key_items(run)[0] == summary_items(run)[0]
    never = summary(run_of(tmp_path / "never", [trained(0, 20.0, 5, 0.8)]))
    assert never.startswith(
        "alexnet local real x1 did not exceed accuracy 0.9 in 1 repeat. No point"
    )


def test_several_points_have_their_times_in_one_list(tmp_path: Path) -> None:
    two = [trained(number, 6.0, 3, devices=2) for number in range(2)]
    study = run_of(tmp_path / "run", [*REACHED, *two])
    item = summary_items(study)[0]
    assert item.text == "Time to accuracy"
    assert [one.partition(" exceeded")[0][-2:] for one in item.parts] == ["x2", "x1"]


def test_a_point_that_never_reached_it_says_so() -> None:
    rows = scaling([trained(0, 20.0, 5, 0.8)])
    names, (cells,) = filled_table(rows)
    assert dict(zip(names, cells, strict=True))["time to accuracy"] == "not reached"
    (item,) = failure_items(rows)
    assert item.text.endswith("accuracy above 0.9 not reached: 0.800 after 20.00 s, epochs: 5.")


def test_notes_have_the_repeats_that_missed_it() -> None:
    (item,) = failure_items(scaling(SOME))
    missed = "accuracy above 0.9 not reached: 0.800 after 20.00 s, epochs: 5 (in 1 of 3 repeats)"
    assert missed in item.text
    reached = "accuracy above 0.9 after 11.00 s (95 % CI 0.00 to 23.71 s), epochs: 3.5"
    assert f"{reached} (2 of 3 reached it)" in item.text
    kinds = [note.kind for note in scaling(REACHED[:1])[0].notes]
    assert NoteKind.TIME_TO_ACCURACY_ALONE in kinds
    assert any(
        "(1 of 1 reached it" in text
        for item in point_notes(scaling(REACHED[:1]))
        for text in (item.text, *item.parts)
    )


def test_csv_has_times_and_counts() -> None:
    row = csv_row(SOME)
    assert float(row["seconds_to_accuracy"]) == 11
    assert float(row["seconds_to_accuracy_high"]) == pytest.approx(11 + HALF_WIDTH, rel=1e-3)
    assert float(row["epochs_to_accuracy"]) == 3.5
    assert (row["reached_accuracy"], row["trained_to_accuracy"]) == ("2", "3")
    other = scaling([*SOME, repeat([[1.0, 1.3, 1.3]])])
    assert table_csv(other) == results_frame(other).to_csv(index=False, lineterminator="\n")


def test_mllog_ends_a_repeat_with_success_or_aborted(tmp_path: Path) -> None:
    mllog = needed("mllog")
    checker = pytest.importorskip("mlperf_logging.compliance_checker.mlp_compliance")
    (home,) = mllog.write(run_of(tmp_path / "run", SOME), tmp_path)
    found = {}
    for path in home.rglob("*.txt"):
        lines = [json.loads(one.removeprefix(":::MLLOG ")) for one in path.read_text().splitlines()]
        (start,) = (one["time_ms"] for one in lines if one["key"] == "run_start")
        (stop,) = (one for one in lines if one["key"] == "run_stop")
        (accuracy,) = (one for one in lines if one["key"] == "eval_accuracy")
        ended = stop["metadata"]["status"], stop["time_ms"] - start
        found[path.name] = (*ended, accuracy["metadata"]["epoch_num"])
        one = checker.make_checker("training", "6.1.0", False, True)
        one.check_file(str(path), str(mllog.RULES))
        assert not [*one.overwritable.values(), *one.not_overwritable]
    assert found == {
        "result_0.txt": ("success", 10_000, 3),
        "result_1.txt": ("success", 12_000, 4),
        "result_2.txt": ("aborted", 20_000, 5),
    }
