"""Lease of a host: the controller that uses it. One at a time for each user.

A lease is an abstract Unix socket: no file that another user could leave or replace, and gone with
its process. Its name has a random end, so that nobody can take it first; /proc/net/unix lists all
of them. The kernel gives the owner of each (SO_PEERCRED). The answer of this user's lease is
trusted; another user's lease is reported by user and process, not read, and excludes nobody.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import os
import pwd
import select
import socket
import struct
import threading
import time

from launch.remote import limits
from launch.remote.errors import LaunchError, error_line

# Imports are few: starting a probe takes most of its time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TRIES = 4
_MOST_BYTES, _MOST_WORD = 65536, 200
_MOST_OTHERS, _BACKLOG = 20, 64
_CREDENTIALS = struct.Struct("3i")
_SOCKETS = "/proc/net/unix"


def _prefix() -> bytes:
    return f"mxscale-{socket.gethostname()}.lease.".encode()


class Lease:
    """Lease that this process holds for `owner` until `close` or its end."""

    def __init__(self, listener: socket.socket, owner: dict[str, Any]) -> None:
        self._listener = listener
        self._text = json.dumps(owner).encode()

    def fileno(self) -> int:
        """Return the descriptor, readable when a program asks for the owner."""
        return self._listener.fileno()

    def answer(self) -> None:
        """Send the owner to programs of this user that ask; never wait for them."""
        for _ in range(_BACKLOG):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.settimeout(0.0)
                    if _peer(connection)[1] == os.geteuid():
                        connection.sendall(self._text)
                except OSError:
                    pass  # the program is gone, or does not read

    def close(self) -> None:
        """Release the host."""
        self._listener.close()


def take(owner: dict[str, Any]) -> tuple[Lease | None, dict[str, Any]]:
    """Take the lease; return it, or None and its holder. OSError if it cannot be held."""
    found: dict[str, Any] = {}
    for _ in range(_TRIES):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        own = _prefix() + os.urandom(8).hex().encode()
        try:
            listener.bind(b"\0" + own)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            # Two that take it at once both see each other here: both try again.
            found = _holder(own)
        except BaseException:
            listener.close()
            raise
        if not found:
            return Lease(listener, owner), {}
        listener.close()
        if len(found) > 1:  # it answered, so it holds the lease
            break
        time.sleep(limits.LEASE_RETRY_SECONDS * (1 + os.urandom(1)[0]) / 256)  # not both at once
    return None, found


def hold(owner: dict[str, Any] | None) -> None:
    """Hold the lease for `owner` (None: do nothing) as long as this process lives.

    Raises LaunchError if another controller holds it.
    """
    if owner is None:
        return
    lease, other = take(owner)
    if lease is None:
        raise LaunchError(
            error_line(
                "",
                problem=f"another controller uses this host: {described(other)}",
                fix="Wait for it, or end it with 'fab hosts.stop' and the same hosts",
            )
        )

    def answer_all() -> None:
        while True:
            select.select([lease], [], [])
            lease.answer()

    threading.Thread(target=answer_all, daemon=True).start()


def holder() -> dict[str, Any]:
    """Return this user's holder of the lease with its `pid`; empty if there is none."""
    return _holder(b"")


def others() -> list[dict[str, Any]]:
    """Return other users' leases: `user` and `pid` (0 if not visible here)."""
    found = []
    for name in sorted(sockets()):
        _, pid, uid = _asked(name, read=False)
        if uid not in (None, os.geteuid()):
            found.append({"user": _user(uid), "pid": pid})
    return found[:_MOST_OTHERS]


def _holder(own: bytes) -> dict[str, Any]:
    """Return the holder of this user's lease other than `own`; empty if there is none."""
    found: dict[str, Any] = {}
    for name in sorted(sockets()):
        if name != own:
            owner, pid, uid = _asked(name, read=True)
            if uid == os.geteuid():
                found = {**owner, "pid": pid}
                if owner:
                    break
    return found


def sockets() -> dict[bytes, set[bytes]]:
    """Return the names of this host's leases, genuine or not, with their sockets."""
    prefix = b"@" + _prefix()
    found: dict[bytes, set[bytes]] = {}
    try:
        with open(_SOCKETS, "rb") as file:  # noqa: PTH123
            for line in file:
                *_, number, name = line.split(None, 7) if prefix in line else (b"", b"")
                if name.startswith(prefix):
                    found.setdefault(name.strip()[1:], set()).add(number)
    except OSError:
        pass
    return found


def _asked(name: bytes, *, read: bool) -> tuple[dict[str, Any], int, int | None]:
    """Return a lease's owner (if this user's, and `read`), its process and its user.

    The user is None if nobody holds it any more, or it does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(limits.LEASE_ANSWER_SECONDS)
        try:
            asking.connect(b"\0" + name)
            pid, uid = _peer(asking)
        except BlockingIOError:  # too many connections: another user may cause that
            pid = _own_process(name)
            return {}, pid, os.geteuid() if pid else None
        except OSError:
            return {}, 0, None
        return read_answer(asking) if read and uid == os.geteuid() else {}, pid, uid


def _own_process(name: bytes) -> int:
    """Return this user's process that has the socket of this name open; 0 if none has."""
    wanted = {f"socket:[{number.decode()}]" for number in sockets().get(name, ())}
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        folder = f"/proc/{pid}/fd"
        try:
            if os.stat(folder).st_uid != os.geteuid():  # noqa: PTH116
                continue
            for one in os.listdir(folder):  # noqa: PTH208
                if os.readlink(f"{folder}/{one}") in wanted:  # noqa: PTH115
                    return int(pid)
        except OSError:
            continue
    return 0


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Return process and user of the other end, from the kernel."""
    text = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(text)
    return pid, uid


def read_answer(asking: socket.socket) -> dict[str, Any]:
    """Return the owner that a holder sends.

    Empty if it does not answer, or not as a lease.
    """
    text, deadline = b"", time.monotonic() + limits.LEASE_ANSWER_SECONDS
    try:
        while len(text) < _MOST_BYTES and time.monotonic() < deadline:
            piece = asking.recv(4096)
            if not piece:
                break
            text += piece
        values = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    if not isinstance(values, dict):
        return found
    for name in ("user", "master", "since"):
        value = values.get(name)
        if isinstance(value, str) and value.isprintable():
            found[name] = value[:_MOST_WORD]
    process = values.get("process")
    if type(process) is int and 0 <= process < 1 << 31:
        found["process"] = process
    return found


def _user(uid: int | None) -> str:
    try:
        return f"{pwd.getpwuid(uid or 0).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def described(owner: dict[str, Any]) -> str:
    """Return the holder of a lease for a message."""
    if "user" not in owner:
        return (
            f"process {owner.get('pid') or 'unknown'} of this user on the host, which does not "
            f"answer"
        )
    return (
        f"{owner['user']} on {owner.get('master', 'an unknown machine')} (process "
        f"{owner.get('process', 'unknown')}) since {owner.get('since', 'an unknown time')}"
    )


def listed(found: list[dict[str, Any]]) -> str:
    """Return other users' leases for a message; empty if there are none."""
    return ", ".join(f"{one['user']}, process {one['pid'] or 'unknown'}" for one in found)
