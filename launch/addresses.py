"""The address that the other hosts of a job reach a host by."""

import ipaddress
from collections.abc import Mapping

from launch.errors import LaunchError

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
    if reached in addresses.values() and not ipaddress.ip_address(reached).is_loopback:
        return reached
    outer = [address for name, address in addresses.items() if not name.startswith(_INNER)]
    if len(outer) == 1:
        return outer[0]
    raise LaunchError(
        f"it was reached as {reached or 'something unknown'}, which no other host can use; choose "
        f"one of its addresses with --interface NAME: {listed}"
    )
