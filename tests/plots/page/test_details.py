"""Point details of the page: samples of large runs, hosts, the rerun command."""

import dataclasses
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from plots.page.commands import first_processes, rerun_command, rerun_title
from plots.page.details import evenly_spaced, extremes, thin_ranks, thin_values
from plots.page.facts import environment_facts, host_table
from plots.page.page import page
from results.run import Run, load
from tests.support.pages.pages import pace, run_of
from tests.support.paths import ROOT
from tests.support.runs.records import record
from tests.support.runs.stores import stored

numbers = st.lists(st.floats(0.001, 1e3), min_size=1, max_size=300)


@given(numbers, st.integers(2, 50))
def test_the_least_and_the_greatest_are_always_kept(values: list[float], keep: int) -> None:
    places = extremes(values, keep)
    assert {min(values), max(values)} <= {values[place] for place in places}
    assert len(places) <= max(keep, 2)
    assert places == sorted(set(places))
    sample = thin_values(values, keep)
    assert (sample[0], sample[-1]) == (min(values), max(values))
    assert len(sample) == min(keep, len(values))


@given(numbers, st.integers(4, 50))
def test_the_slowest_and_the_fastest_rank_are_always_kept(own: list[float], keep: int) -> None:
    paces = [pace(number, 1.0, seconds) for number, seconds in enumerate(own)]
    kept = [one.own_seconds for one in thin_ranks(paces, keep)]
    assert {min(own), max(own)} <= set(kept)
    assert len(kept) == min(keep, len(own))


def test_what_is_drawn_behind_is_said_to_be_from_elsewhere() -> None:
    run = run_of(record([[1, 2.0, 2.1]]))
    others = [
        dataclasses.replace(record([[1, 2.0]], devices=devices), source=f"log {devices}")
        for devices in (1, 2)
    ]
    told = " ".join(page(run, over=run_of(*others, folder=Path("b"))).split())
    assert "<strong>b</strong>, not measured by mxscale: log 1 and 1 more.</p>" in told
    assert 'class="hint" id="behind"' in page(run, over=run)
    assert 'id="behind"' not in page(run)


def test_an_even_sample_has_both_ends() -> None:
    assert evenly_spaced(101, 5) == [0, 25, 50, 75, 100]
    assert evenly_spaced(3, 5) == [0, 1, 2]


def test_facts_in_which_hosts_differ_stand_apart() -> None:
    gpus = [{"name": "A", "memory": 1}]
    found = host_table(
        {
            "hosts": {
                "a": {"python": "3.11", "gpus": gpus, "cores": [0, 1, 2, 5]},
                "b": {"python": "3.12", "gpus": gpus, "cores": [0, 1, 2, 5]},
            }
        }
    )
    assert found is not None
    assert found.names == ("a", "b")
    assert found.differing == (("Python", ("3.11", "3.12"), frozenset()),)
    assert found.alike == (
        ("GPU 0 name", "A"),
        ("GPU 0 memory", "1"),
        ("cores", "4 (numbers 0 to 2 and 5)"),
    )


def test_a_fact_that_one_host_lacks_is_a_difference() -> None:
    found = host_table({"hosts": {"a": {"mxnet": "1.9.1"}, "b": {}, "c": {"mxnet": "1.9.1"}}})
    assert found is not None
    assert found.differing == (("MXNet", ("1.9.1", "", "1.9.1"), frozenset({""})),)


def test_facts_are_told_whatever_they_are() -> None:
    told = environment_facts(
        {"a": None, "b": True, "c": {"d": [1.5, "x"], "e": {}}, "f": [], "hosts": {}}
    )
    assert told == [("b", "yes"), ("c d", "1.5, x")]


def test_processes_alike_are_shown_once() -> None:
    commands = {"worker-10": "c", "worker-2": "b", "server-0": "s", "worker-0": "a"}
    shown = {process: (text, more) for process, text, more in first_processes(commands)}
    assert shown == {"worker-0": ("a", 2), "server-0": ("s", 0)}


def test_a_point_is_run_again_from_the_sweep_that_the_run_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    stored(folder, record([[1, 2.0, 2.1]], engine="fake"))
    run = load(folder)
    assert rerun_command(run, run.rows[0]) == ""
    assert "replace RUN" not in rerun_title(run)
    (folder / "sweep.toml").write_text("")
    assert "; replace RUN by this run's folder" in rerun_title(run)
    assert rerun_command(run, run.rows[0]) == (
        ".venv/bin/fab bench.sweep RUN/sweep.toml --point 'alexnet local x1' --engine fake "
        "--run 'a b-again'"
    )


def test_a_sweep_in_the_checkout_is_named_from_there() -> None:
    demo = ROOT / "docs" / "runs" / "demo"
    run: Run = run_of(record([[1, 2.0, 2.1]]), folder=demo)
    assert " docs/runs/demo/sweep.toml " in rerun_command(run, run.rows[0])
    assert "replace RUN" not in rerun_title(run)
