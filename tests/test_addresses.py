"""By which address the hosts of a job reach each other."""

from dataclasses import replace
from typing import Any

import pytest

import launch.addresses
from launch.addresses import address_of, located
from launch.errors import LaunchError
from launch.hosts import Host, this_machine
from launch.transport import Line, here
from tests.jobs import left_over

SAID = {"ssh": "192.0.2.7", "addresses": {"lo": "127.0.0.1", "eth0": "10.0.0.7"}}


def test_the_address_is_the_one_that_ssh_reached_unless_an_interface_is_named() -> None:
    assert address_of(SAID, "", "node02") == "192.0.2.7"
    assert address_of(SAID, "eth0", "node02") == "10.0.0.7"


@pytest.mark.parametrize(
    ("changes", "interface", "why"),
    [
        ({"ssh": "::1"}, "", "node02: SSH reached it by ::1, which other hosts cannot use"),
        ({"ssh": "127.0.0.1"}, "", "node02: SSH reached it by 127.0.0.1, which other hosts"),
        ({"ssh": ""}, "", "node02: SSH reached it by no address, which other hosts cannot use"),
        ({}, "eth", "node02: --interface eth has no IPv4 address here"),
    ],
)
def test_where_none_fits_a_person_chooses(
    changes: dict[str, Any], interface: str, why: str
) -> None:
    with pytest.raises(LaunchError) as refused:
        address_of({**SAID, **changes}, interface, "node02")
    assert str(refused.value).startswith(why)
    assert str(refused.value).endswith("; choose with --interface: lo (127.0.0.1), eth0 (10.0.0.7)")


def test_a_host_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 50000 192.0.2.9 22")
    assert [one.address for one in located(here, [this_machine()])] == ["192.0.2.9"]
    assert [one.address for one in located(here, [this_machine()], "lo")] == ["127.0.0.1"]


def test_every_host_without_an_address_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    hosts = [replace(this_machine(), name=f"node0{n}") for n in (1, 2)]
    with pytest.raises(LaunchError, match=r"node01: SSH.*; node02: SSH"):
        located(here, hosts)


def test_hosts_that_share_an_address_are_refused() -> None:
    hosts = [replace(this_machine(), name=f"node0{n}") for n in (1, 2)]
    with pytest.raises(LaunchError, match=r"node01, node02: .* all have 127\.0\.0\.1"):
        located(here, hosts, "lo")


def test_a_host_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def mute(host: Host, _: tuple[str, ...]) -> Line:
        """An agent, which waits to be told something."""
        return here(host, ("errors", "ports", "lease", "processes", "agent"))

    monkeypatch.setattr(launch.addresses, "_ANSWER_SECONDS", 1.0)
    with pytest.raises(LaunchError, match="its addresses were not found: no answer within 1 s"):
        located(mute, [this_machine()])
    assert left_over() == []
