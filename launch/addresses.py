"""Addresses: the one by which the other hosts of a job reach each host."""

import ipaddress
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from launch.errors import LaunchError
from launch.hosts import Host
from launch.transport import Start, said

_ANSWER_SECONDS = 15.0


def located(start: Start, hosts: Sequence[Host], interface: str = "") -> tuple[Host, ...]:
    """The hosts with their addresses, which all are asked for side by side.

    The address is that of the interface or, where none is named, the one that SSH reached. Raises
    LaunchError where a host cannot be reached, has no such address, or shares it with another.
    """
    with ThreadPoolExecutor(max(1, len(hosts))) as pool:
        asked = [pool.submit(_located, start, host, interface) for host in hosts]
    if wrong := [why for why in map(_why, asked) if why]:
        raise LaunchError("; ".join(wrong))
    found = tuple(one.result() for one in asked)
    names = defaultdict(list)
    for host in found:
        names[host.address].append(host.name)
    for address, same in names.items():
        if len(same) > 1:
            raise LaunchError(
                f"{', '.join(same)}: expected an address each, all have {address}; list a machine "
                f"once, and choose an interface on which the hosts see each other with --interface"
            )
    return found


def address_of(answer: Mapping[str, Any], interface: str, name: str) -> str:
    """The numeric IPv4 address of a host, by what launch.whereabouts said there.

    Raises LaunchError, for the host of this name, where the choice is left to a person.
    """
    addresses: dict[str, str] = answer["addresses"]
    if interface:
        if interface in addresses:
            return addresses[interface]
        why = f"--interface {interface} has no IPv4 address here"
    else:
        if _is_reachable(answer["ssh"]):
            return str(answer["ssh"])
        why = f"SSH reached it by {answer['ssh'] or 'no address'}, which other hosts cannot use"
    there = ", ".join(f"{one} ({address})" for one, address in addresses.items())
    raise LaunchError(f"{name}: {why}; choose with --interface: {there or 'there is none'}")


def _is_reachable(text: str) -> bool:
    try:
        return not ipaddress.IPv4Address(text).is_loopback
    except ValueError:
        return False


def _why(asked: "Future[Host]") -> str:
    error = asked.exception()
    if error is not None and not isinstance(error, LaunchError):
        raise error
    return str(error or "")


def _located(start: Start, host: Host, interface: str) -> Host:
    return replace(host, address=address_of(_answer(start, host), interface, host.name))


def _answer(start: Start, host: Host) -> dict[str, Any]:
    line = start(host, ("whereabouts",))
    late = threading.Timer(_ANSWER_SECONDS, line.close, [0.0])
    late.start()
    try:
        for text in line.lines():
            values = said(text)
            if values is not None and values["say"] == "here":
                return values
    finally:
        late.cancel()
        line.close(1.0)
    why = line.last_words() or f"no answer within {_ANSWER_SECONDS:.0f} s"
    raise LaunchError(f"{host.name}: its addresses were not found: {why}")
