"""Counter-experiments: settings that really apply, and what they predict."""

from typing import Any

import pytest

from bench.notes import NoteKind
from bench.trial import changed, make
from results.explain.experiment import Experiment, experiment
from results.explain.measurements import SlowRank
from results.explain.verdict import Cause, verdict
from tests.support.runs.steps import QUIET, known

_BASE = {"network": "tiny", "batch_per_device": 4, "kvstore": "dist_sync", "devices": 2}
_HOSTS = _BASE | {"devices_per_host": 1}
_REAL = _HOSTS | {"mode": "real", "data_train": "a.rec", "data_val": "b.rec", "windows": 5}
_SLOW = SlowRank(rank=1, host="n2", seconds=1.0)
CASES: list[tuple[Cause, dict[str, Any], dict[str, Any], str, float]] = [
    (Cause.INPUT, _REAL, {"input": 1.0}, "mode=synthetic data_train= data_val=", 0.5),
    (Cause.LINK, _HOSTS, {"link_bytes": 100e6}, "gc_type=2bit", 0.754),
    (
        Cause.LINK,
        _HOSTS | {"gc_type": "2bit"},
        {"link_bytes": 100e6},
        "batch_per_device=8",
        1.475,
    ),
    (
        Cause.LINK,
        _HOSTS | {"kvstore": "allreduce"},
        {"link_bytes": 100e6},
        "gc_type=ternary",
        0.508,
    ),
    (Cause.SERVER, _HOSTS, {"server_cpu": 1.0}, "servers_per_host=2", 0.738),
    (Cause.SERVER, _BASE, {"server_cpu": 1.0, "hosts": 1}, "kvstore=local", 0.475),
    (Cause.STRAGGLER, _HOSTS, {"slow_rank": _SLOW}, "kvstore=dist_async", 2 / 3),
    (Cause.CORES, _BASE, {"own": 1.9}, "devices=1 devices_per_host=1", 0.5),
    (Cause.SYNC, _HOSTS, {}, "batch_per_device=8", 1.475),
    (Cause.INTERFERENCE, _HOSTS, {"own": 1.9, "other_cores": 0.5}, "", 0.5),
    (Cause.MACHINE, _HOSTS, {"disturbances": (NoteKind.SWAPPED,)}, "", 0.475),
]


@pytest.mark.parametrize(("cause", "fields", "step", "settings", "expected"), CASES)
def test_each_cause_has_an_experiment_that_applies(
    cause: Cause, fields: dict[str, Any], step: dict[str, Any], settings: str, expected: float
) -> None:
    trial, found = make(fields), verdict(known(step=2.0, **step))
    assert found.cause is cause
    test = experiment(trial, found)
    assert (test.cause, test.settings) == (cause, settings)
    assert test.expected == pytest.approx(expected, abs=1e-3)
    assert not settings or changed(trial, settings) != trial


def test_training_by_epochs_is_tested_by_windows_without_images() -> None:
    trial = make(_REAL | {"windows": 0, "num_epochs": 2})
    test = experiment(trial, verdict(known(step=2.0, input=1.0)))
    assert changed(trial, test.settings).measuring.windows


def test_several_causes_are_tested_by_the_largest() -> None:
    found = verdict(known(step=2.0, own=1.4, input=0.45))
    assert found.cause is Cause.SEVERAL
    assert experiment(make(_BASE), found).cause is Cause.CORES


def test_nothing_lost_and_nothing_measured_have_no_experiment() -> None:
    assert experiment(make(_HOSTS), verdict(QUIET)) is None
    assert experiment(make(_HOSTS), verdict(known(input=None))) is None


@pytest.mark.parametrize(
    ("expected", "other", "confirmed"),
    [(0.5, 1.1, True), (0.5, 1.6, False), (1.5, 3.2, True), (1.5, 3.9, False)],
)
def test_a_cause_is_confirmed_if_the_step_is_closer_to_its_prediction(
    expected: float, other: float, confirmed: bool
) -> None:
    """The step was 2 s; without the cause it stays so, or doubles with the batch."""
    otherwise = 1.0 if expected < 1 else 2.0
    test = Experiment(cause=Cause.SYNC, settings="", expected=expected, otherwise=otherwise)
    assert test.confirmed(2.0, other) is confirmed
