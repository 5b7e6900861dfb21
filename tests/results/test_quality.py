"""Quality of points: its rules, and the reasons that a row gives."""

import csv
import dataclasses
import io

import pytest

from bench.notes import INTERFERENCE, Note, NoteKind
from plots.results_csv import table_csv
from results.quality import Quality
from results.record import Record
from results.scaling import ScalingRow, scaling
from tests.support.runs.records import record

FACTS = {"mxnet": "1.9.1", "python": "3.11.7", "instructions": "avx2"}


def known(one: Record, *notes: Note, code: str = "abc", **facts: str) -> Record:
    """Return the record with its versions and these notes."""
    return dataclasses.replace(
        one,
        identity=dataclasses.replace(one.identity, code_hash=code),
        ranks=tuple(dataclasses.replace(rank, facts=FACTS | facts) for rank in one.ranks),
        notes=notes,
    )


def repeats(
    *notes: Note, devices: int = 1, count: int = 3, spread: float = 0.01, code: str = "abc"
) -> list[Record]:
    """Return repeats of a point whose throughputs differ by `spread`."""
    steps = [1 + spread * number for number in range(count)]
    return [
        known(
            record([[step] * 6], repeat=n, devices=devices, kvstore="local", devices_per_host=4),
            *notes,
            code=code,
        )
        for n, step in enumerate(steps)
    ]


def judged(records: list[Record]) -> ScalingRow:
    """Return the last row."""
    return scaling(records)[-1]


def kinds(row: ScalingRow) -> list[NoteKind]:
    """Return the kinds of the reasons."""
    return [note.kind for note in row.quality_notes]


def test_three_close_repeats_with_known_versions_are_publishable() -> None:
    rows = scaling([*repeats(), *repeats(devices=2)])
    assert [row.quality for row in rows] == [Quality.PUBLISHABLE] * 2
    assert [row.quality_notes for row in rows] == [(), ()]


def test_few_repeats_and_a_wide_interval_are_indicative() -> None:
    row = judged(repeats(count=2, spread=0.0001))
    assert (row.quality, kinds(row)) == (Quality.INDICATIVE, [NoteKind.FEW_REPEATS])
    row = judged(repeats(spread=0.1))
    assert (row.quality, kinds(row)) == (Quality.INDICATIVE, [NoteKind.WIDE_INTERVAL])
    assert row.rate
    assert row.quality_notes[0].figures["half_width"] == row.rate.relative_half_width


def test_an_interval_wider_than_its_value_is_doubtful() -> None:
    row = judged(repeats(count=2, spread=0.9))
    assert row.quality is Quality.DOUBTFUL
    assert kinds(row) == [NoteKind.UNINFORMATIVE, NoteKind.FEW_REPEATS]


@pytest.mark.parametrize(
    "kind", sorted({*INTERFERENCE, NoteKind.BUSY_BASELINE, NoteKind.INSPECTED, NoteKind.TEXT})
)
def test_interference_and_inspection_are_doubtful(kind: NoteKind) -> None:
    row = judged(repeats(Note(kind, {"text": "so"})))
    assert (row.quality, kinds(row)) == (Quality.DOUBTFUL, [kind])


def test_an_oversubscribed_point_is_doubtful() -> None:
    row = judged([dataclasses.replace(one, emulated=True) for one in repeats()])
    assert (row.quality, kinds(row)) == (Quality.DOUBTFUL, [NoteKind.OVERSUBSCRIBED])


def test_differing_conditions_between_repeats_are_doubtful() -> None:
    first, *others = repeats()
    other = known(first, instructions="avx512_core")
    row = judged([other, *others])
    assert (row.quality, kinds(row)) == (Quality.DOUBTFUL, [NoteKind.CONDITIONS_DIFFER])


def test_an_imported_point_is_at_most_indicative() -> None:
    row = judged([dataclasses.replace(one, source="a paper") for one in repeats()])
    assert (row.quality, kinds(row)) == (Quality.INDICATIVE, [NoteKind.NOT_OURS])


def test_unknown_versions_are_indicative_and_named() -> None:
    row = judged(repeats(code=""))
    assert row.quality is Quality.INDICATIVE
    assert row.quality_notes[0].figures["what"] == ["code"]
    bare = [dataclasses.replace(one, ranks=record([[1.0] * 6]).ranks) for one in repeats()]
    assert judged(bare).quality_notes[0].figures["what"] == ["mxnet", "python", "hardware"]


def test_a_point_is_no_better_than_its_baseline() -> None:
    busy = Note(NoteKind.OTHER_PROGRAMS, {"cores": 1.0, "of": 2})
    row = judged([*repeats(busy), *repeats(devices=2)])
    assert (row.quality, kinds(row)) == (Quality.DOUBTFUL, [NoteKind.BASELINE_QUALITY])
    assert row.quality_notes[0].figures == {"baseline": "local x1", "quality": "doubtful"}
    row = judged([*repeats(count=2, spread=0.0001), *repeats(devices=2)])
    assert (row.quality, kinds(row)) == (Quality.INDICATIVE, [NoteKind.BASELINE_QUALITY])


def test_simulations_and_points_without_a_result_have_no_quality() -> None:
    simulated = [record([[1.0] * 6], repeat=n, engine="fake") for n in range(3)]
    failed = record([[1.0] * 6], status="failed")
    assert [judged(simulated).quality, judged([failed]).quality] == [None, None]


def test_serious_reasons_come_first() -> None:
    swapped = Note(NoteKind.SWAPPED, {"mib": 1.0})
    assert kinds(judged(repeats(swapped, count=1)))[0] is NoteKind.SWAPPED


def test_every_reason_has_a_short_form_without_figures() -> None:
    assert all(kind.reason for kind in NoteKind)
    own = [kind for kind in NoteKind if kind.headline]
    assert not [kind for kind in own if "{" in kind.reason]


def test_results_csv_has_the_quality_and_the_kinds_of_its_reasons() -> None:
    header, *rows = csv.reader(io.StringIO(table_csv(scaling(repeats(count=2, spread=0.0001)))))
    found = [dict(zip(header, row, strict=True)) for row in rows]
    assert [one["quality"] for one in found] == ["indicative"]
    assert [one["quality_reasons"] for one in found] == ["few-repeats"]
