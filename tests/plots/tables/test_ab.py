"""The lines on an A/B measurement, and the updates of its sweep."""

from dataclasses import replace

from bench.notes import Note, NoteKind
from plots.tables.ab import busy_lines, doubtful_lines, page, throughput_line
from results.comparison.ab import labeled, until_ended
from results.progress import SweepUpdate
from results.record import RepeatStart
from tests.support.runs.records import record

RUNS = [record([[1.0, seconds]], repeat=n) for n, seconds in enumerate([0.5, 0.2, 0.2, 0.5] * 2)]
ORDER = [one.identity for one in RUNS]


def updates() -> list[SweepUpdate]:
    """Return a start and a record per run."""
    return [
        update
        for n, one in enumerate(RUNS)
        for update in (
            RepeatStart(trial=one.trial, identity=one.identity, number=n + 1, total=8),
            one,
        )
    ]


def test_each_run_is_named_by_its_block_and_side() -> None:
    names = [one.name for one in labeled(updates(), ORDER) if isinstance(one, RepeatStart)]
    assert names == [f"block {n} of 2, {side}" for n in (1, 2) for side in "ABBA"]


def test_a_part_of_a_sweep_ends_with_its_last_run_and_the_rest_follows() -> None:
    running = iter(updates())
    assert list(until_ended(running, [])) == []
    assert list(until_ended(running, ORDER[:4])) == updates()[:8]
    assert list(until_ended(running, ORDER[4:])) == updates()[8:]


def test_both_sides_have_their_mean_throughput() -> None:
    line = throughput_line(RUNS)
    assert line == "mean throughput: A 16.00 images/s (n = 4), B 40.00 images/s (n = 4)"
    assert line in page([line], RUNS)


def test_figures_that_programs_print_are_marked_and_a_wrong_one_is_not_measured_again() -> None:
    both = [
        replace(one, source="" if n % 4 in {0, 3} else "reported by x.py (mxnet)")
        for n, one in enumerate(RUNS)
    ]
    assert "- B: reported by x.py (mxnet)\n" in page([], both)
    assert "reported" not in page([], RUNS)
    wrong = replace(RUNS[1], notes=(Note(NoteKind.PRINTED_CONTRADICTED, {"factor": 2.0}),))
    (line,) = doubtful_lines([RUNS[0], wrong, *RUNS[2:]])
    assert line.endswith("(see their notes). Correct what the program prints")


def test_brief_runs_and_busy_machines_make_a_result_doubtful() -> None:
    assert doubtful_lines(RUNS) == busy_lines([]) == []
    brief, others = Note(NoteKind.BRIEF, {"seconds": 0.3}), Note(NoteKind.OTHER_PROGRAMS)
    both = [replace(RUNS[0], notes=(brief,)), replace(RUNS[1], notes=(brief, others)), *RUNS[2:]]
    first, second = doubtful_lines(both)
    assert first == (
        "doubtful: 2 of 8 runs were too short to be reliable. Increase steps_per_window, now 1, in "
        "the settings of both A and B"
    )
    assert second.startswith("doubtful: 1 of 8 runs were not reliable (see their notes). Measure")
