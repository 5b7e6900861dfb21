"""The addresses by which the hosts of a job reach each other."""

from dataclasses import replace

import pytest

from launch.hosts import this_machine
from launch.preflight.addresses import address_of, located, same_machine
from launch.remote.errors import LaunchError
from launch.transport.line import start_local

FOUND = {"lo": "127.0.0.1", "eth0": "10.0.0.7", "ib0": "192.0.2.7", "docker0": "172.17.0.1"}


def test_the_address_is_the_one_that_ssh_reached_unless_an_interface_is_named() -> None:
    assert address_of(FOUND, "192.0.2.7") == "192.0.2.7"
    assert address_of(FOUND, "192.0.2.7", "eth0") == "10.0.0.7"


@pytest.mark.parametrize("reached", ["::1", "127.0.0.1", "", "203.0.113.5"])
def test_a_host_with_one_network_needs_no_choice(reached: str) -> None:
    one = {name: FOUND[name] for name in ("lo", "eth0", "docker0")}
    assert address_of(one, reached) == "10.0.0.7"


@pytest.mark.parametrize(
    ("reached", "interface", "why"),
    [
        (
            "::1",
            "",
            "the controller reached this host as ::1, which other hosts cannot use. Choose",
        ),
        (
            "127.0.0.1",
            "",
            "the controller reached this host as 127.0.0.1, which other hosts cannot use. Choose",
        ),
        ("", "", "the connection names no address of this host"),
        (
            "192.0.2.7",
            "eth",
            "--interface eth: expected an interface of this host with an IPv4 address",
        ),
    ],
)
def test_where_none_fits_a_person_chooses(reached: str, interface: str, why: str) -> None:
    with pytest.raises(LaunchError) as refused:
        address_of(FOUND, reached, interface)
    assert str(refused.value).startswith(why)
    assert "eth0 10.0.0.7, ib0 192.0.2.7" in str(refused.value)


@pytest.mark.program
def test_a_host_says_where_it_is() -> None:
    assert [one.address for one in located(start_local, [this_machine()], "lo")] == ["127.0.0.1"]


@pytest.mark.program
def test_hosts_without_an_address_are_named_in_one_line() -> None:
    hosts = [replace(this_machine(), name=f"node0{n}") for n in (1, 2)]
    with pytest.raises(LaunchError, match=r"^node01, node02: --interface no: "):
        located(start_local, hosts, "no")


@pytest.mark.program
def test_hosts_that_share_an_address_are_refused() -> None:
    hosts = [replace(this_machine(), name=f"node0{n}") for n in (1, 2)]
    with pytest.raises(LaunchError, match=r"node01: has the address 127\.0\.0\.1, as node02"):
        located(start_local, hosts, "lo")


def test_hosts_that_are_one_machine_are_told_with_the_others() -> None:
    found = same_machine({"a": "m1", "b": "m2", "c": "m1"})
    assert found == {
        "a": "is the same machine as c. List it once",
        "c": "is the same machine as a. List it once",
    }
