"""Notes on a point beside its result."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

import pytest

from bench.notes import Note, NoteKind
from results.record import Record
from results.scaling import scaling
from tests.support.runs.records import record

# Examples or images per second as logs of others have them: their first windows are slow.
HOROVOD_32 = [952.0, 2687.0, 22244.0, 21021.0, 21819.0]
HOROVOD_64 = [1907.0, 5165.0, 43927.0, 43552.0, 41958.0]
TERNGRAD = [5.3, 9.5, 9.4, 9.6, 9.5]


def test_what_is_not_steady_is_said() -> None:
    late = [1.0, *[1.4, 1.41, 1.39] * 6, *[1.0, 1.01, 0.99] * 3]
    rising = [1.0, *[1 + 0.01 * n for n in range(20)]]
    said = [scaling([record([one])])[0].note_text for one in (late, rising, [1.0] * 20)]
    assert said[0].startswith(
        "no steady state: the first 18 of 27 windows after warm-up differ from the rest"
    )
    assert (
        "; no steady state: from the first counted window to the last, the window time" in said[1]
    )
    assert re.search(r"changes by \+\d+ % of its mean$", said[1])
    assert said[2] == ""
    both = [record([late], repeat=0), record([[1.0] * 20], repeat=1)]
    assert scaling(both)[0].note_text.endswith("(in 1 of 2 repeats)")


def test_the_accuracy_of_a_point_is_that_of_all_its_repeats() -> None:
    repeats = [
        dataclasses.replace(record([[1.0] * 3], repeat=n), accuracy=reached)
        for n, reached in enumerate((0.3, 0.35, 0.64))
    ]
    (row,) = scaling(repeats)
    assert row.note_text.startswith("validation accuracy 0.430 (0.300 to 0.640 in 3 repeats)")
    (row,) = scaling(repeats[:1])
    assert row.note_text.startswith("validation accuracy 0.300")


def ran(seconds: float, variables: dict[str, str], **fields: Any) -> Record:
    one = record([[seconds] * 4] * fields.get("devices", 1), **fields)
    rank = dataclasses.replace(one.ranks[0], facts={"instructions": "avx2", "variables": variables})
    return dataclasses.replace(one, ranks=(rank, *one.ranks[1:]))


def test_repeats_and_bases_that_ran_with_other_variables_are_told() -> None:
    naive, active = {"MXNET_ENGINE_TYPE": "NaiveEngine"}, {"OMP_WAIT_POLICY": "active"}
    (row,) = scaling([ran(1.0, naive, repeat=0), ran(1.0, {}, repeat=1)])
    assert row.note_text == "MXNET_ENGINE_TYPE differs between the repeats (NaiveEngine or unset)"
    two = ran(1.0, active, devices=2, kvstore="dist_sync")
    base, row = scaling([ran(1.0, {}), two])
    assert base.note_text == ""
    assert row.note_text.endswith("local x1 (active or unset)")
    assert all(not row.note_text for row in scaling([ran(1.0, active), two]))


@pytest.mark.parametrize(
    ("drifting", "precision", "status"),
    [(0, 0.02, "ok"), (1, 0.02, "ok"), (2, 0.02, "unstable"), (3, 0, "ok")],
)
def test_a_point_is_unstable_if_most_repeats_are_and_a_precision_was_asked_for(
    drifting: int, precision: float, status: str
) -> None:
    rising = [1.0, *[1 + 0.01 * n for n in range(20)]]
    windows = [rising] * drifting + [[1.0] * 20] * (3 - drifting)
    repeats = [record([one], repeat=n, precision=precision) for n, one in enumerate(windows)]
    (row,) = scaling(repeats)
    assert row.status == status
    assert row.rate is not None


def halves(slow: int, fast: int, by: float = 1.2) -> list[float]:
    """Return a warm-up window, then these numbers of slow and fast windows."""
    scatter = itertools.cycle([1.0, 1.01, 0.99, 1.005, 0.995])
    return [2.0, *(by * next(scatter) for _ in range(slow)), *itertools.islice(scatter, fast)]


@pytest.mark.parametrize("precision", [0.0, 0.02])
@pytest.mark.parametrize("by", [1.1, 1.3, 0.8])
def test_a_point_that_drops_more_than_a_third_of_its_windows_is_unstable_until_more_confirm(
    precision: float, by: float
) -> None:
    for fast, status in ((10, "unstable"), (19, "unstable"), (22, "ok"), (40, "ok")):
        (row,) = scaling([record([halves(10, fast, by)], precision=precision)])
        assert row.rate is not None
        assert (fast, row.status) == (fast, status)


@pytest.mark.parametrize("rates", [HOROVOD_32, HOROVOD_64, TERNGRAD])
def test_a_short_slow_start_leaves_a_point_ok(rates: list[float]) -> None:
    for count in range(4, len(rates) + 1):
        (row,) = scaling([record([[1 / rate for rate in (1000, *rates[:count])]])])
        assert row.status == "ok"


def repeats(*notes: Sequence[Note]) -> list[Record]:
    return [
        dataclasses.replace(record([[1.0, 1.0]], repeat=n), notes=tuple(some))
        for n, some in enumerate(notes)
    ]


def others(cores: float, host: str) -> Note:
    return Note(NoteKind.OTHER_PROGRAMS, {"cores": cores, "of": 4}, {"host": host})


def test_what_any_repeat_has_to_say_is_told_once() -> None:
    swapped = Note(NoteKind.SWAPPED, {"mib": 12.0})
    (row,) = scaling(repeats([], [others(1.7, "a"), swapped], [swapped, others(1.9, "a")], []))
    assert row.note_text == (
        "a: other programs used 1.7 to 1.9 of 4 cores during the measurement "
        "(in 2 of 4 repeats); 12 MiB moved to and from swap during the measurement "
        "(in 2 of 4 repeats)"
    )


def test_hosts_and_ranks_are_told_apart() -> None:
    both = ([others(cores, "node1"), others(2.0, "node2")] for cores in (1.7, 1.9))
    (row,) = scaling(repeats(*both))
    assert row.note_text == (
        "node1: other programs used 1.7 to 1.9 of 4 cores during the measurement; "
        "node2: other programs used 2.0 of 4 cores during the measurement"
    )


def test_asynchronous_ranks_that_speed_up_alone_are_neither_unsteady_nor_faster() -> None:
    slow = [1.3] * 47 + [1.04] * 14  # once the other has ended
    one = record([[1.0] * 61, slow], devices=2, kvstore="dist_async", precision=0.02)
    (row,) = scaling([one])
    assert (row.status, row.note_text) == ("ok", "")
    assert row.rate.images_per_second == pytest.approx(8 + 8 / 1.3, rel=0.01)


def test_windows_that_do_not_count_are_told_with_what_they_change() -> None:
    slow, fast = [1.0, 1.4, 1.41, *[1.0, 1.01, 0.99]], [1.0, 0.7, 0.71, *[1.0, 1.01, 0.99]]
    (row,) = scaling([record([slow])])
    text = "excluded after warm-up: 2 of 5 windows (time per image differs by +40 % from the rest)"
    assert row.note_text == text
    (row,) = scaling([record([fast])])  # three that follow are too few to make these the exception
    assert row.rate.windows == 5
    (row,) = scaling([record([[*fast, *[1.0, 1.01, 0.99]]])])
    assert "differs by -30 % from the rest" in row.note_text
