"""The newest try of a repeat is its result; a run keeps the earlier ones."""

import dataclasses
import json
from pathlib import Path

import pytest

from bench.notes import Note, NoteKind
from results.quality import Quality
from results.record import Record
from results.run import Again, Run, load, to_measure_again
from tests.support.runs.records import record
from tests.support.runs.stores import stored

STEADY, RISING = [1.0, 1.0, 1.0], [1.0 + 0.2 * n for n in range(9)]


def tried(folder: Path, *records: Record) -> Run:
    """Return the run of these records; it requests each repeat once."""
    stored(folder, *records)
    asked = dict.fromkeys(one.identity for one in records)
    text = json.dumps([dataclasses.asdict(one) for one in asked])
    (folder / "asked.json").write_text(text)
    return load(folder)


def test_the_newest_try_is_the_result_and_earlier_ones_are_kept(tmp_path: Path) -> None:
    run = tried(
        tmp_path,
        record([STEADY], status="lost"),
        record([STEADY], repeat=1),
        record([STEADY], status="hung"),
        record([STEADY]),
    )
    assert [one.status for one in run.earlier] == ["lost", "hung"]
    assert [len(row.repeats) for row in run.rows] == [2]
    assert run.complete


def test_a_newer_try_that_failed_replaces_a_result(tmp_path: Path) -> None:
    run = tried(tmp_path, record([STEADY]), record([STEADY], status="hung"))
    assert [row.status for row in run.rows] == ["hung"]
    assert [one.status for one in run.earlier] == ["ok"]


@pytest.mark.parametrize(("which", "repeats"), [(Again.FAILED, [1]), (Again.UNSTABLE, [2])])
def test_a_class_has_the_repeats_to_measure_again(
    tmp_path: Path, which: Again, repeats: list[int]
) -> None:
    run = tried(
        tmp_path,
        record([STEADY]),
        record([STEADY], repeat=1, status="timeout"),
        record([RISING], repeat=2),
    )
    assert [one.repeat for one in to_measure_again(run, which)] == repeats


def test_the_doubtful_repeats_of_a_point_are_measured_again(tmp_path: Path) -> None:
    busy = Note(NoteKind.OTHER_PROGRAMS, {"cores": 1.0, "of": 2})
    base = [record([[1.0] * 6], repeat=n) for n in range(2)]
    other = [record([[1.0] * 6], repeat=n, devices=2) for n in range(2)]
    disturbed = dataclasses.replace(base[1], notes=(busy,))
    run = tried(tmp_path, base[0], disturbed, *other)
    assert [row.quality for row in run.rows] == [Quality.DOUBTFUL] * 2
    again = to_measure_again(run, Again.DOUBTFUL)
    assert again == [base[1].identity]  # the other point is doubtful only by its baseline
