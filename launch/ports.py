"""The scheduler's port: the one that is fixed before a job starts.

Standard library only and Python 3.8 or newer: agents look for it on their hosts.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import random
import socket
from pathlib import Path

from launch.errors import LaunchError

_LOWEST, _EPHEMERAL = 10_000, Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 100
# The last two are for what is no address at all.
_UNUSABLE = (OSError, OverflowError, TypeError, ValueError)


def free_port(address: str, wanted: int | None = None) -> int:
    """A port of this machine that can be bound now: `wanted`, or any.

    Raises LaunchError where it is in use, or none was found.
    """
    if wanted is None:
        return _any(address)
    try:
        _bind(address, wanted)
    except _UNUSABLE as error:
        raise LaunchError(
            f"port {wanted} on {address} cannot be used ({error}); "
            f"choose another with --port, or leave it out to have a free one found"
        ) from error
    return wanted


def is_taken(address: str, port: int) -> bool:
    """Whether another program holds the port now."""
    try:
        _bind(address, port)
    except _UNUSABLE:
        return True
    return False


def _bind(address: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((address, port))


def _any(address: str) -> int:
    """A free port below those that the kernel deals out to whoever connects to something."""
    first_ephemeral = int(_EPHEMERAL.read_text(encoding="ascii").split()[0])
    highest = max(_LOWEST + 1000, first_ephemeral - 1)
    for _ in range(_TRIES):
        port = random.randint(_LOWEST, highest)
        if not is_taken(address, port):
            return port
    raise LaunchError(f"no port of {_LOWEST} to {highest} on {address} can be bound")
