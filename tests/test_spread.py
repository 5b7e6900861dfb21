"""A sweep's points over the hosts of a cluster."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bench.sweep import load_sweep, spread, within


@given(st.integers(1, 300))
def test_counts_double_and_end_with_all(devices: int) -> None:
    counts = within(devices)
    assert (counts[0], counts[-1]) == (1, devices)
    assert counts == sorted(set(counts))
    assert all(after <= 2 * before for before, after in itertools.pairwise(counts))


def names(sweep: str, hosts: int, devices: int) -> list[str]:
    what = load_sweep(sweep, hosts=hosts, fields={"devices_per_host": devices})
    return [trial.name for trial in what.trials if "resnet" in trial.name or "tiny" in trial.name]


def test_the_study_goes_over_one_host_then_two_four_and_all() -> None:
    assert names("seed", 6, 8) == [
        *(f"resnet-152 device x{count}" for count in (1, 2, 4, 8)),
        *(f"resnet-152 dist_device_sync x{count}" for count in (8, 16, 32, 48)),
    ]


def test_a_distributed_store_that_begins_at_one_device_does_so_here_too() -> None:
    assert names("smoke", 3, 2) == [
        *(f"tiny local x{count}" for count in (1, 2)),
        *(f"tiny dist_sync x{count}" for count in (1, 2, 4, 6)),
    ]


def test_points_without_device_counts_stay_as_they_are() -> None:
    data = {"points": [{"kvstore": "local"}, {"kvstore": "local", "devices": [1, 2]}]}
    assert spread(data, 2, 4)["points"] == [
        {"kvstore": "local"},
        {"kvstore": "local", "devices": [1, 2, 4]},
    ]


def test_options_count_for_every_point() -> None:
    what = load_sweep("smoke", fields={"env": ["A=b"], "windows": 3})
    assert {(trial.env, trial.windows) for trial in what.trials} == {(("A=b",), 3)}
