"""The scheduler's port: the one that is fixed before a job starts."""

import socket

from launch.errors import LaunchError


def free_port(address: str, wanted: int | None = None) -> int:
    """A port of this machine that can be bound now: `wanted`, or any.

    Raises LaunchError where `wanted` is in use.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, wanted or 0))
        except (OSError, OverflowError) as error:
            raise LaunchError(
                f"port {wanted} on {address} cannot be used ({error}); "
                f"choose another with --port, or leave it out to have a free one found"
            ) from error
        return int(probe.getsockname()[1])
