"""The address that the other hosts of a job reach a host by."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from launch.hosts import Host
from launch.remote import limits
from launch.remote.errors import LaunchError
from launch.transport.client import RemoteProgram, catch_errors, map_hosts
from launch.transport.line import Starter

# Of the machine alone: containers and virtual machines on it.
_INNER = ("lo", "docker", "br-", "virbr", "veth", "cni", "flannel")


def address_of(addresses: Mapping[str, str], reached: str, interface: str = "") -> str:
    """Of a host's own addresses by network interface, the one that a job binds there.

    That of `interface`, where one is chosen; else the one it was `reached` by; else its only one.
    Raises LaunchError where there is no such.
    """
    listed = ", ".join(f"{name} {address}" for name, address in addresses.items()) or "none"
    if interface:
        if interface not in addresses:
            raise LaunchError(
                f"--interface {interface}: it has none of this name with an IPv4 address; its "
                f"addresses: {listed}"
            )
        return addresses[interface]
    if reached in addresses.values() and not reached.startswith("127."):
        return reached
    outer = [address for name, address in addresses.items() if not name.startswith(_INNER)]
    if len(outer) == 1:
        return outer[0]
    raise LaunchError(
        f"it was reached as {reached or 'something unknown'}, which no other host can use; choose "
        f"one of its addresses with --interface NAME: {listed}"
    )


def sharing(addresses: Mapping[str, str]) -> dict[str, str]:
    """Of hosts with the address of another, by name: what is wrong."""
    return {
        name: f"has the address {addresses[name]}, as {others}: list a machine once, or choose "
        f"with --interface a network on which they differ"
        for name, others in _alike(addresses).items()
    }


def same_machine(machines: Mapping[str, str]) -> dict[str, str]:
    """Of hosts that are the same machine as another, by name: what is wrong."""
    return {
        name: f"is the same machine as {others}: list it once"
        for name, others in _alike(machines).items()
    }


def _alike(values: Mapping[str, str]) -> dict[str, str]:
    """The names with the value of another, each with those others."""
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
    """The hosts with their addresses, which all are asked for side by side.

    Raises LaunchError where hosts cannot be reached, have no such address, or share one.
    """

    def locate(host: Host) -> Host:
        with closing(RemoteProgram(host, start, "probe")) as program:
            found = program.request({"do": "where"}, limits.ADDRESS_SECONDS, "where")
        try:
            address = address_of(found["addresses"], "".join(found["reached"]), interface)
        except LaunchError as error:
            raise LaunchError(f"{host.name}: {error}") from error
        return replace(host, address=address)

    answers = map_hosts(catch_errors(locate), hosts, len(hosts))
    wrong = [one for one in answers if isinstance(one, LaunchError)]
    if wrong:
        raise LaunchError("; ".join(map(str, wrong)))
    found = tuple(one for one in answers if isinstance(one, Host))
    for name, why in sharing({host.name: host.address for host in found}).items():
        raise LaunchError(f"{name}: {why}")
    return found
