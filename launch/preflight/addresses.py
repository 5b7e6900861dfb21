"""Addresses by which the hosts of a job reach each other."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from launch.hosts import Host
from launch.preflight.findings import problem_lines
from launch.remote import limits
from launch.remote.errors import LaunchError, error_line
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter

# Interfaces within one machine: for containers and virtual machines.
_INNER = ("lo", "docker", "br-", "virbr", "veth", "cni", "flannel")
_ONCE = "List each machine once, or choose a network on which they differ with --interface NAME"


def address_of(addresses: Mapping[str, str], reached: str, interface: str = "") -> str:
    """Return the address that a job binds on a host.

    `addresses` are by network interface.

    It is that of `interface` if given, else the one by which the controller `reached` it, else its
    only one.
    Raises LaunchError if there is none of them.
    """
    listed = ", ".join(f"{name} {address}" for name, address in addresses.items()) or "none"
    if interface:
        if interface not in addresses:
            raise LaunchError(
                error_line(
                    f"--interface {interface}",
                    expected="an interface of this host with an IPv4 address",
                    got="none of this name",
                    fix=f"Choose one of its interfaces: {listed}",
                )
            )
        return addresses[interface]
    if reached in addresses.values() and not reached.startswith("127."):
        return reached
    outer = [address for name, address in addresses.items() if not name.startswith(_INNER)]
    if len(outer) == 1:
        return outer[0]
    inner = f"the controller reached this host as {reached}, which other hosts cannot use"
    raise LaunchError(
        error_line(
            "",
            problem=inner if reached else "the connection names no address of this host",
            fix=f"Choose one of its addresses with --interface NAME: {listed}",
        )
    )


def sharing(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the problem of each host that has the address of another, by name."""
    return {
        name: error_line("", problem=f"has the address {addresses[name]}, as {others}", fix=_ONCE)
        for name, others in _alike(addresses).items()
    }


def same_machine(machines: Mapping[str, str]) -> dict[str, str]:
    """Return the problem of each host that is the same machine as another, by name."""
    return {
        name: error_line("", problem=f"is the same machine as {others}", fix="List it once")
        for name, others in _alike(machines).items()
    }


def _alike(values: Mapping[str, str]) -> dict[str, str]:
    """Return the names that share a value, each with the others that have it."""
    names = defaultdict(list)
    for name, one in values.items():
        names[one].append(name)
    return {
        name: ", ".join(other for other in same if other != name)
        for same in names.values()
        for name in same
        if len(same) > 1
    }


def located(start: Starter, hosts: Sequence[Host], interface: str = "") -> tuple[Host, ...]:
    """Return the hosts with their addresses; all hosts are asked in parallel.

    Raises LaunchError if hosts cannot be reached, have no such address, or share one.
    """

    def locate(host: Host) -> Host:
        with closing(RemoteProgram(host, start, "probe")) as program:
            found = program.request({"do": "where"}, limits.ADDRESS_SECONDS, "where")
        try:
            address = address_of(found["addresses"], "".join(found["reached"]), interface)
        except LaunchError as error:
            raise LaunchError(error_line(host.name, problem=str(error))) from error
        return replace(host, address=address)

    answers = map_hosts(catch_errors(locate), hosts, len(hosts))
    failed = [
        (host.name, str(one).removeprefix(f"{host.name}: "))
        for host, one in zip(hosts, answers, strict=True)
        if isinstance(one, LaunchError)
    ]
    if failed:
        raise LaunchError("; ".join(problem_lines(failed)))
    found = tuple(one for one in answers if isinstance(one, Host))
    for name, why in sharing({host.name: host.address for host in found}).items():
        raise LaunchError(error_line(name, problem=why))
    return found
