"""Sockets to SSH servers, limited by the open files of this process."""

import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paramiko.channel import Channel
from paramiko.ssh_exception import SSHException
from paramiko.transport import Transport

from launch.remote import limits
from launch.remote.errors import LaunchError, error_line
from launch.remote.processes import MOST_FILES, raise_open_files

# A key exchange needs a local processor, and its deadlines run while it waits for one.
_HANDSHAKES = 16
_FILES_APIECE, _OWN_FILES = 2, 100


class SocketLimits:
    """Limits of parallel connections: by open files and by gateway, not by host.

    Only servers that answer take a turn for the key exchange.
    """

    def __init__(self) -> None:
        raise_open_files()
        self._files = open_files()
        opened = len(list(Path("/proc/self/fd").iterdir()))
        room = (self._files - _OWN_FILES - opened) // _FILES_APIECE
        self._room = threading.BoundedSemaphore(max(1, room))
        self.handshakes = threading.Semaphore(_HANDSHAKES)
        self._lock = threading.Lock()
        self._gates: dict[str, threading.Semaphore] = {}

    def take(self) -> None:
        """Reserve a connection, waiting for failed ones; LaunchError if all are in use."""
        if not self._room.acquire(timeout=3 * limits.CONNECT_SECONDS):
            raise LaunchError(
                error_line(
                    "this machine",
                    expected=f"more than {self._files} open files per process for so many hosts",
                    fix="Raise the limit with ulimit -n",
                )
            )

    def give(self) -> None:
        """Release a closed connection."""
        self._room.release()

    @contextmanager
    def through(self, gateway: str, at_once: int) -> Iterator[None]:
        """Take one of `at_once` parallel connections through a gateway."""
        with self._lock:
            gate = self._gates.setdefault(gateway, threading.Semaphore(at_once))
        with gate:
            yield


def open_files() -> int:
    """Return the limit on open files of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def dial(host: str, port: int) -> socket.socket:
    """Connect to a server that sends its banner.

    OSError or SSHException if it does not.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    deadline = time.monotonic() + limits.CONNECT_SECONDS
    for at, (family, kind, protocol, _, address) in enumerate(found):
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(max(1.0, (deadline - time.monotonic()) / (len(found) - at)))
            made.connect(address)
            made.settimeout(None)
            _await_banner(made)
        except (OSError, SSHException):
            made.close()
            if at == len(found) - 1:
                raise
        else:
            return made
    raise OSError(f"{host}: has no address")


def _await_banner(made: socket.socket) -> None:
    """Wait for the first bytes of the server, or its end."""
    poll = select.poll()
    poll.register(made, select.POLLIN)
    if not poll.poll(limits.BANNER_SECONDS * 1000):
        raise SSHException("Error reading SSH protocol banner")


def dial_through(gateway: Transport, host: str, port: int) -> Channel:
    """Connect as `dial` does, through a connected gateway."""
    made: Channel = gateway.open_channel(
        "direct-tcpip", (host, port), ("", 0), timeout=limits.CONNECT_SECONDS
    )
    deadline = time.monotonic() + limits.BANNER_SECONDS
    while not made.recv_ready() and not made.closed and not made.eof_received:
        if time.monotonic() > deadline:
            made.close()
            raise SSHException("Error reading SSH protocol banner")
        time.sleep(0.02)
    return made
