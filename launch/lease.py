"""The lease of a host: which master's agent it works for. One at a time.

Standard library only and Python 3.8 or newer, as the agent that it is sent with. A lease is a lock
on a file, so that it ends with the agent, however that ends; what is in the file says whose it is.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import fcntl
import json
import os
import socket
import time
from typing import Any

from launch.errors import LaunchError

_TRIES = 4


def path() -> str:
    """The file: the host's own, named after it, for all its users."""
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp"  # noqa: PTH112
    return f"{folder}/mxscale-{socket.gethostname()}.lease"


def take(who: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A descriptor that holds the lease for `who`; or -1 and what the one who has it said."""
    descriptor = _opened()
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)  # whoever asks for the holder has it for a moment
            continue
        _write(json.dumps({**who, "pid": os.getpid()}).encode())
        return descriptor, {}
    found = _read(descriptor)
    os.close(descriptor)
    return -1, found


def hold(who: dict[str, Any] | None) -> None:
    """Has the lease for `who`, if anybody, as long as this process lives.

    Raises LaunchError where another has it.
    """
    if who is not None:
        descriptor, other = take(who)
        if descriptor < 0:
            raise LaunchError(f"another master has this host: {described(other)}")


def _write(text: bytes) -> None:
    """Says whose lease it is; where that cannot be written the lease holds all the same."""
    try:
        # Without O_CREAT, which kernels refuse for another user's file in a shared folder.
        descriptor = os.open(path(), os.O_WRONLY | os.O_TRUNC)
    except OSError:
        return
    try:
        os.write(descriptor, text)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def holder() -> dict[str, Any]:
    """What the one who has the lease said, with its `pid`; empty where nobody has it."""
    descriptor = _opened()
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor) or {"pid": 0}
    finally:
        os.close(descriptor)
    return {}


def described(who: dict[str, Any]) -> str:
    """Whose lease it is, in words."""
    return (
        f"{who.get('user', 'somebody')} on {who.get('master', 'some machine')} (process "
        f"{who.get('process', 'unknown')}) since {who.get('since', 'some time')}"
    )


def _opened() -> int:
    try:
        return os.open(path(), os.O_RDONLY)
    except FileNotFoundError:
        descriptor = os.open(path(), os.O_RDONLY | os.O_CREAT)
        os.fchmod(descriptor, 0o666)  # the next one may be another user
        return descriptor


def _read(descriptor: int) -> dict[str, Any]:
    try:
        values = json.loads(os.pread(descriptor, 65536, 0))
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}
