"""Explanations of points: their lines and the commands of counter-experiments."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from plots.tables.explanation import confirm_words, confirmation, explanations
from results.explain.experiment import Experiment, experiment
from results.explain.verdict import Cause
from results.run import Run
from tests.support.runs.steps import rows


def run_of(*command: str, **changes: Any) -> Run:
    """Return a run of one device and two hosts, whose servers are busy."""
    environment = {"command": list(command)} if command else {}
    found = Run(folder=Path("mine"), rows=rows(), environment=environment, place="RUN")
    return dataclasses.replace(found, **changes)


def test_a_point_has_its_budget_evidence_gaps_and_command() -> None:
    run = run_of()
    first, second = explanations(run, run.rows)
    assert first.text == "alexnet local x1, verdict compute"
    assert second.text == "alexnet dist_sync x2, verdict server 50 %"
    assert second.parts[:4] == (
        "step 2.00 s: compute 1.00 s (50 %), cores 0.0100 s (1 %), server 0.990 s (50 %)",
        "evidence: verdict server: exchange takes 0.99 s of each 2 s step (50 %), and the busiest "
        "server runs or waits for a core for 1 s",
        "ceilings per step: busiest server, running or waiting for a core 1.00 s",
        "not measured: raw TCP (bench.bandwidth)",
    )
    assert second.parts[4].startswith(
        "counter-experiment: .venv/bin/fab bench.ab '' servers_per_host=2 --sweep RUN/sweep.toml "
        "--point 'alexnet dist_sync x2' --blocks 2 --run mine-confirm-server-"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), ["", "servers_per_host=2"]),
        (("--repeats=3", "--run=mine", "--again=failed"), ["", "servers_per_host=2"]),
        (("--server-hosts=1",), ["server_hosts=1", "server_hosts=1 servers_per_host=2"]),
        (("-x", "A=1", "-x", "TOKEN=***"), ["env.A=1", "env.A=1 servers_per_host=2"]),
    ],
)
def test_both_settings_of_the_command_have_the_options_of_the_sweep(
    given: tuple[str, ...], words: list[str]
) -> None:
    run = run_of("fab", "bench.sweep", "mine", *given, "--hostfile=hosts")
    row = run.rows[1]
    assert row.verdict
    test = experiment(row.trial, row.verdict)
    assert test
    found = confirm_words(run, "x2", row, test)
    assert found[:3] == ["bench.ab", *words]
    assert found[5:8] == ["--point", "x2", "--hostfile=hosts"]


def test_interference_is_measured_again_on_idle_hosts() -> None:
    run = run_of("fab", "bench.sweep", "mine", "--repeats=3", "--run=mine", "--again=failed")
    test = Experiment(cause=Cause.MACHINE, settings="", expected=0.5, otherwise=1.0)
    words = confirm_words(run, "x2", run.rows[1], test)
    assert words[:4] == ["bench.sweep", "RUN/sweep.toml", "--point", "x2"]
    assert words[4:7] == ["--repeats=3", "--wait-idle", "600"]


def test_a_confirmation_names_both_steps_and_the_predictions() -> None:
    test = Experiment(cause=Cause.LINK, settings="gc_type=2bit", expected=0.6, otherwise=1.0)
    assert confirmation(test, 2.0, 1.1) == (
        "link confirmed: a step takes 1.10 s with gc_type=2bit, 2.00 s before, a factor of 0.550 "
        "(0.600 if link is the cause, 1.00 if not)"
    )
    assert confirmation(test, 2.0, 1.9).startswith("link not confirmed: ")
