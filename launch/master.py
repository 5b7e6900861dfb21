"""This master, as others are told whose a host is."""

import getpass
import os
import socket
from datetime import UTC, datetime

from launch.hosts import Host


def who(host: Host) -> dict[str, object] | None:
    """What the lease of a host says; None for this machine, which may play many hosts."""
    if host.login is None:
        return None
    return {
        "user": getpass.getuser(),
        "master": socket.gethostname(),
        "process": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
