"""The rank that computes more slowly than the others is named, and no other."""

import dataclasses

import numpy as np
import pytest

from bench.notes import Note, NoteKind
from bench.statistics.confidence import Numbers
from bench.trial import make
from results.record import Rank
from results.repeat import Straggler, stragglers, summarize
from results.scaling import scaling
from tests.support.runs.records import record

RUNS = 2000


def ranks(seconds: Numbers) -> list[Rank]:
    """Return one rank per row, each on a host of its own."""
    return [
        Rank(rank=n, host=f"h{n}", process=f"worker-{n}", own_seconds=tuple(row))
        for n, row in enumerate(seconds.tolist())
    ]


def probes(draw: np.random.Generator, count: int, noise: float, number: int = 8) -> Numbers:
    """Return times of `count` equal ranks, with a common slowdown per probe."""
    together = 1 + 0.2 * draw.random(number)
    return 0.5 * together * (1 + noise * draw.standard_normal((count, number)))


def named(seconds: Numbers) -> list[int]:
    return [one.rank for one in stragglers(ranks(seconds))]


def test_one_of_four_slowed_by_a_fifth_is_always_named() -> None:
    draw = np.random.default_rng(1)
    for run in range(RUNS):
        seconds = probes(draw, 4, 0.03)
        seconds[run % 4] *= 1.2
        assert named(seconds) == [run % 4]


@pytest.mark.parametrize("count", [2, 4])
def test_nobody_is_named_where_nobody_is_slow(count: int) -> None:
    draw = np.random.default_rng(2)
    assert sum(bool(named(probes(draw, count, 0.03))) for _ in range(RUNS)) <= 2


def test_of_many_ranks_only_the_slow_ones_are_named() -> None:
    draw = np.random.default_rng(3)
    for _ in range(10):
        seconds = probes(draw, 256, 0.03)
        assert named(seconds) == []
        seconds[[9, 200]] *= [[1.2], [1.3]]
        assert named(seconds) == [200, 9]


def test_noise_beyond_the_usual_names_nobody() -> None:
    draw = np.random.default_rng(4)
    assert sum(bool(named(probes(draw, 16, 0.1))) for _ in range(500)) <= 2
    seconds = probes(draw, 4, 0.01)
    seconds[1, 5] *= 4  # once is no rule
    assert named(seconds) == []


def test_a_rank_with_more_images_is_no_slow_one() -> None:
    seconds = probes(np.random.default_rng(6), 4, 0.02)
    seconds[0] *= 1.33  # four images and three each: a batch of 13
    uneven = [
        dataclasses.replace(rank, images=(4 if rank.rank == 0 else 3,) * 9)
        for rank in ranks(seconds)
    ]
    assert stragglers(uneven) == []
    seconds[2] *= 1.2
    more = [
        dataclasses.replace(rank, images=(4 if rank.rank == 0 else 3,) * 9)
        for rank in ranks(seconds)
    ]
    assert [one.rank for one in stragglers(more)] == [2]


def test_of_two_ranks_the_slower_is_named() -> None:
    seconds = probes(np.random.default_rng(5), 2, 0.01)
    seconds[1] *= 1.2
    (found,) = stragglers(ranks(seconds))
    assert (found.rank, found.host) == (1, "h1")
    assert found.excess == pytest.approx(0.2, abs=0.03)


def test_what_cannot_be_told_is_not_said() -> None:
    assert stragglers([]) == []
    assert named(np.ones((1, 8))) == []
    assert named(np.ones((4, 8))) == []
    assert named(np.array([[1.0], [9.0]])) == []  # one probe has no noise to compare with
    silent = Rank(rank=4, host="h4", process="worker-4")
    assert stragglers([*ranks(np.array([[1.0] * 8, [2.0] * 8])), silent]) == []


def test_equal_probes_have_no_noise_to_hide_in() -> None:
    assert stragglers(ranks(np.array([[1.0] * 8, [1.25] * 8, [1.0] * 8]))) == [
        Straggler(rank=1, host="h1", excess=0.25)
    ]


def test_the_point_says_who_is_slow_and_by_how_much() -> None:
    good = record([[1, 1.0, 1.0]] * 4, devices=4, kvstore="dist_sync")
    own = [(1.0,) * 8, (1.0,) * 8, (1.21,) * 8, (1.0,) * 8]
    slowed = dataclasses.replace(
        good,
        ranks=tuple(
            dataclasses.replace(rank, own_seconds=seconds, host=f"n{rank.rank}")
            for rank, seconds in zip(good.ranks, own, strict=True)
        ),
    )
    (row,) = scaling([slowed])
    assert row.note_text == "rank 2 on n2: computes 21 % slower than the other ranks"


def test_traffic_is_no_caveat_on_one_host_in_any_mode() -> None:
    note = Note(NoteKind.LITTLE_COMPUTING, {"megabytes": 9.0, "seconds": 0.1})
    one = dataclasses.replace(record([[1.0, 1.0, 1.0]] * 2), notes=(note,))
    for hosts in (1, 2):
        trial = make(
            {"network": "tiny", "batch_per_device": 4, "kvstore": "dist_sync", "devices": 2}
            | {"devices_per_host": 2 // hosts, "mode": "real", "data_train": "d"}
        )
        notes = summarize(dataclasses.replace(one, trial=trial)).notes
        assert (note in notes) is (hosts > 1)
