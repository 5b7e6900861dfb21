"""A comparison names its doubtful sides and the next command."""

import dataclasses

from bench.notes import Note, NoteKind
from plots.tables.comparison import remarks
from results.comparison.compare import compare
from results.run import Run
from tests.support.runs.comparisons import quiet, run

OTHERS = Note(NoteKind.OTHER_PROGRAMS, {"cores": 1.5, "of": 2})
COMMAND = ["fab", "bench.sweep", "mine.toml"]


def busy(name: str) -> Run:
    """Return a run on a busy machine, as fast as a quiet one."""
    return run(name, *[dataclasses.replace(one, notes=(OTHERS,)) for one in quiet()])


def test_an_inconclusive_comparison_of_doubtful_runs_names_both_and_the_next_command() -> None:
    a, b = busy("a"), busy("b")
    found = compare(a, dataclasses.replace(b, environment={"command": COMMAND}))
    assert [one.verdict for one in found.changes] == ["undecided"]
    assert remarks(found)[-2:] == [
        "A: doubtful: alexnet local x1 (busy machine). Measure again on an idle machine.",
        "B: doubtful: alexnet local x1 (busy machine). Measure again on an idle machine with "
        "'fab bench.sweep mine.toml --wait-idle 600 --again doubtful'.",
    ]


def test_points_of_one_run_only_and_oversubscribed_ones_need_no_idle_machine() -> None:
    first = [dataclasses.replace(one, emulated=True) for one in quiet()]
    other = [dataclasses.replace(one, notes=(OTHERS,)) for one in quiet(devices=2)]
    found = compare(run("a", *first), run("b", *quiet(), *other))
    assert remarks(found)[-1] == (
        "A: doubtful: alexnet local x1 (oversubscribed). Compare points of no more devices than "
        "the machine has."
    )
