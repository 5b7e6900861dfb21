"""Where the scheduler of a job is placed, by the option of `bench.sweep`."""

import pytest

from bench.sweep import load_sweep
from launch import setup
from launch.hosts import Host, HostOptions
from launch.remote.errors import LaunchError

HOSTS = (Host(name="node01", address="192.0.2.1", cpus=2, gpus=0),)


class ReachedError(Exception):
    """The option was accepted, and the hosts would be checked next."""


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    def reported(*_: object) -> None:
        raise ReachedError

    monkeypatch.setattr(setup, "reported", reported)


@pytest.mark.parametrize("place", ["first", "controller", "master"])
def test_a_place_of_the_scheduler_is_accepted(place: str) -> None:
    with (
        pytest.raises(ReachedError),
        setup.job_setup(HOSTS, HostOptions(), load_sweep("smoke"), place),
    ):
        pass


def test_another_place_is_refused() -> None:
    with (
        pytest.raises(LaunchError, match="expected first or controller, got 'last'"),
        setup.job_setup(HOSTS, HostOptions(), load_sweep("smoke"), "last"),
    ):
        pass
