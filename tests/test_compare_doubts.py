"""What a single process that was measured briefly or disturbed decides: nothing."""

import dataclasses
from pathlib import Path

import pytest

from bench.notes import Note, NoteKind
from results.comparison.compare import Change, compare
from results.record import Record
from results.run import Run
from results.scaling import scaling
from tests.test_scaling import record


def change(a: Record, b: Record) -> Change:
    """What is said of a point that ran as `a` and as `b`."""
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


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (ran(0.01), ran(0.02), "A was measured once, for 0.07 s; take more windows or repeats; B"),
        (ran(1.0), ran(2.0, OTHERS), "others"),
    ],
)
def test_a_process_measured_briefly_or_disturbed_decides_nothing(
    a: Record, b: Record, why: str
) -> None:
    found = change(a, b)
    assert found.verdict == "undecided"
    assert found.why.startswith(why)
