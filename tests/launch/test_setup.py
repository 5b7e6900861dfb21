"""The setup of a sweep: the scheduler's place, and options that need hosts."""

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


@pytest.mark.parametrize(
    ("flag", "options"),
    [
        ("--interface", HostOptions(interface="ib0")),
        ("--devices-per-node", HostOptions(devices_per_node="3")),
    ],
)
def test_an_option_of_hosts_without_hosts_is_refused(flag: str, options: HostOptions) -> None:
    with (
        pytest.raises(LaunchError, match=f"{flag}: expected hosts, got none. Name them with"),
        setup.job_setup((), options, load_sweep("smoke")),
    ):
        pass
    with setup.job_setup((), options, load_sweep("smoke", engine="fake")) as where:
        assert where.hosts
